// A driver that takes a while to count the GPUs, and fails. Link with
// LINKER:--wrap=_ZN12overlapbench11VisibleGpusEv, in one source of a test.
#pragma once

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string_view>
#include <thread>

#include "device/descriptor.h"
#include "device/error.h"
#include "launcher/pipe.h"

namespace overlapbench {

struct FakeDriver {
  int gpus = 0;
  std::chrono::milliseconds takes{0};
  Descriptor faults{};  // one for each process that asks
};
inline FakeDriver& Driver() {
  static FakeDriver driver;
  return driver;
}

// Of the next processes that ask: 'e' for an error, 'k' for its end.
inline Descriptor Faults(std::string_view kinds) {
  Pipe pipe = MakePipe();
  if (write(pipe.writing.get(), kinds.data(), kinds.size()) < 0) throw Error("a pipe is full");
  return std::move(pipe.reading);
}

// The linker puts it in the place of VisibleGpus.
[[gnu::used]] inline int CountFakeGpus() asm("__wrap__ZN12overlapbench11VisibleGpusEv");
inline int CountFakeGpus() {
  char fault = 0;
  if (write(STDERR_FILENO, "counting\n", 9) < 0) return 0;
  std::this_thread::sleep_for(Driver().takes);
  if (read(Driver().faults.get(), &fault, 1) == 1 && fault == 'e')
    throw Error("the driver is busy");
  if (fault == 'k') raise(SIGKILL);
  return Driver().gpus;
}

}  // namespace overlapbench

// What the launcher does about a driver that fails, hangs, or ends the process that asks it.
#include "launcher/gpu_count.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <iostream>
#include <string>

#include "child.h"
#include "fake_driver.h"
#include "launcher/signals.h"
#include "thrown.h"

namespace overlapbench {
namespace {

bool& HasNoProcessLeft() {
  static bool has_none = false;
  return has_none;
}

}  // namespace

// The linker puts the first in the place of fork, which has the second name then.
pid_t ForkIfAny() asm("__wrap_fork");
pid_t ForkTruly() asm("__real_fork");
pid_t ForkIfAny() {
  errno = EAGAIN;
  return HasNoProcessLeft() ? -1 : ForkTruly();
}

namespace {

using std::chrono::milliseconds;

constexpr GpuCountLimits kQuick{milliseconds(2000), milliseconds(60), milliseconds(20)};

// What a process of its own learns: the number, or the error.
std::string Count(const GpuCountLimits& limits = kQuick) {
  Child job([&] {
    std::signal(SIGCHLD, SIG_IGN);  // as a caller may leave it
    Signals signals;
    const std::string error = Thrown<Error>([&] { std::cout << CountGpus(signals, limits); });
    if (error != "nothing") std::cout << error;
    return waitpid(-1, nullptr, WNOHANG) == -1 ? 0 : 1;  // no process is left
  });
  EXPECT_EQ(job.End(), 0);
  return job.Out();
}

std::string CannotCount(const std::string& why) {
  return "cannot count the GPUs: " + why + "; --ranks N starts N ranks without counting";
}

const std::string kAdvice = " (does nvidia-smi work? --backend=host needs no GPU)";

TEST(CountGpus, AnErrorIsNotNoGpu) {
  Driver() = {.gpus = 0};
  EXPECT_EQ(Count(), "0");
  for (const char* of_the_moment : {"e", "k", "ek"}) {
    Driver() = {.gpus = 4, .faults = Faults(of_the_moment)};
    EXPECT_EQ(Count({milliseconds(2000), milliseconds(5000), milliseconds(20)}), "4");
  }
  Driver() = {.gpus = 4, .faults = Faults(std::string(1000, 'e'))};
  EXPECT_EQ(Count(), CannotCount("the driver is busy"));
  Driver() = {.gpus = 4, .faults = Faults(std::string(1000, 'k'))};
  EXPECT_EQ(Count(), CannotCount("the driver ended the process that asked it: SIGKILL (out of "
                                 "memory, or kill -9)" +
                                 kAdvice));
  Driver() = {};
}

TEST(CountGpus, ADriverThatHangsHasALimit) {
  Driver() = {.gpus = 4, .takes = std::chrono::seconds(60)};
  EXPECT_EQ(Count({milliseconds(100), milliseconds(0), milliseconds(0)}),
            CannotCount("the driver did not answer within 0.1 s" + kAdvice));
  Driver() = {};
}

TEST(CountGpus, SaysThatItCannotStartAProcess) {
  Child job([] {
    HasNoProcessLeft() = true;
    Signals signals;
    std::cout << Thrown<Error>([&] { CountGpus(signals, kQuick); });
    return 0;
  });
  EXPECT_EQ(job.End(), 0);
  EXPECT_EQ(job.Out(), "cannot start a process: Resource temporarily unavailable");
}

}  // namespace
}  // namespace overlapbench

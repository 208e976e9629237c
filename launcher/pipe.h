// Pipe: both ends, which programs that are executed do not inherit.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "device/descriptor.h"
#include "device/error.h"

namespace overlapbench {

struct Pipe {
  Descriptor reading;
  Descriptor writing;
};

// Throws Error.
inline Pipe MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace overlapbench

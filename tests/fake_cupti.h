// A library in CUPTI's place, for tests without a GPU.
//
// A program that is linked to it has loaded it under the name of NVIDIA's own (libcupti.so.13 with
// CUDA 13), so that is what Cupti finds. It records nothing, and refuses what it is told to.
#pragma once

#include <map>
#include <string>

namespace overlapbench {

struct FakeCupti {
  std::map<std::string, int> refused;  // by function: what it returns in place of success
  int subscribers = 0;                 // that are there now
};

// What the library answers from, and what it has seen.
FakeCupti& TheFakeCupti();

}  // namespace overlapbench

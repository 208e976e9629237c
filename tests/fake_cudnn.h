// A fake cuDNN, for tests without a GPU: it counts what is made and destroyed, keeps what it was
// told last, and fails on request.
#pragma once

#include <string>

struct FakeCudnn {
  int handles = 0;  // that exist
  int tensors = 0;
  std::string failing;  // the function that fails
  void* stream = nullptr;
  int format = -1, type = -1, n = 0, c = 0, h = 0, w = 0;
  int algorithm = -1, mode = -1;
  float alpha = 0, beta = 1;
  const void* input = nullptr;
  void* output = nullptr;
};
FakeCudnn& TheFakeCudnn();

#include "tests/fake_cudnn.h"

#include <cstddef>

FakeCudnn& TheFakeCudnn() {
  static FakeCudnn fake;
  return fake;
}

namespace {

int StatusOf(const char* function) { return TheFakeCudnn().failing == function ? 7 : 0; }

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() { return 91902; }
const char* cudnnGetErrorString(int status) { return status == 7 ? "SEVEN" : "another"; }

int cudnnCreate(void** handle) {
  if (StatusOf("cudnnCreate") != 0) return 7;
  *handle = new char;
  ++TheFakeCudnn().handles;
  return 0;
}
int cudnnDestroy(void* handle) {
  delete static_cast<char*>(handle);
  --TheFakeCudnn().handles;
  return 0;
}
int cudnnSetStream(void* /*handle*/, void* stream) {
  TheFakeCudnn().stream = stream;
  return StatusOf("cudnnSetStream");
}
int cudnnCreateTensorDescriptor(void** tensor) {
  if (StatusOf("cudnnCreateTensorDescriptor") != 0) return 7;
  *tensor = new char;
  ++TheFakeCudnn().tensors;
  return 0;
}
int cudnnDestroyTensorDescriptor(void* tensor) {
  delete static_cast<char*>(tensor);
  --TheFakeCudnn().tensors;
  return 0;
}
int cudnnSetTensor4dDescriptor(void* /*tensor*/, int format, int type, int n, int c, int h, int w) {
  FakeCudnn& fake = TheFakeCudnn();
  fake.format = format;
  fake.type = type;
  fake.n = n;
  fake.c = c;
  fake.h = h;
  fake.w = w;
  return StatusOf("cudnnSetTensor4dDescriptor");
}
// NOLINTNEXTLINE(readability-function-size): cuDNN's own parameters
int cudnnSoftmaxForward(void* /*handle*/, int algorithm, int mode, const void* alpha,
                        void* /*input_tensor*/, const void* input, const void* beta,
                        void* /*output_tensor*/, void* output) {
  FakeCudnn& fake = TheFakeCudnn();
  fake.algorithm = algorithm;
  fake.mode = mode;
  fake.alpha = *static_cast<const float*>(alpha);
  fake.beta = *static_cast<const float*>(beta);
  fake.input = input;
  fake.output = output;
  return StatusOf("cudnnSoftmaxForward");
}

}  // extern "C"

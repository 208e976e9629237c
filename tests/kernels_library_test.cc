// The kernels' C interface: bad calls are refused with a status and a message before anything is
// launched, good ones compute.
#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "backends.h"
#include "interface/overlapbench.h"
#include "kernels/gelu_oracle.h"
#include "kernels/library/overlapbench_kernels.h"

namespace overlapbench {
namespace {

// NOLINTNEXTLINE(performance-no-int-to-ptr): an address of no memory is what is wanted.
void* Address(std::uintptr_t value) { return reinterpret_cast<void*>(value); }

// One program may include the headers of both libraries: this file does.
TEST(KernelsLibraryTest, ReturnsTheSameOkAsTheMeasuringLibrary) {
  EXPECT_EQ(static_cast<int>(OVERLAPBENCH_OK), static_cast<int>(OVERLAPBENCH_MEASURING_OK));
}

// Addresses of no memory at all: these calls must fail before they ask a GPU about it.
TEST(KernelsLibraryTest, RefusesBadArgumentsWithoutAGpu) {
  struct Refused {
    int32_t type;
    int32_t form;
    void* input;
    void* output;
    int64_t count;
    int32_t status;
    std::string message;
  };
  void* const even = Address(0x1000);
  void* const odd = Address(0x1001);
  const std::vector<Refused> all = {
      {3, 0, even, even, 1, OVERLAPBENCH_UNKNOWN_TYPE,
       "type is 3, must be 0 (float32), 1 (float16) or 2 (bfloat16)"},
      {-1, 0, even, even, 1, OVERLAPBENCH_UNKNOWN_TYPE,
       "type is -1, must be 0 (float32), 1 (float16) or 2 (bfloat16)"},
      {0, 2, even, even, 1, OVERLAPBENCH_UNKNOWN_TYPE, "form is 2, must be 0 (tanh) or 1 (erf)"},
      {0, 0, even, even, 0, OVERLAPBENCH_BAD_SIZE, "count is 0, must be from 1 to 2147483648"},
      {0, 0, even, even, -5, OVERLAPBENCH_BAD_SIZE, "count is -5, must be from 1 to 2147483648"},
      {0, 0, even, even, INT64_MAX, OVERLAPBENCH_BAD_SIZE,
       "count is 9223372036854775807, must be from 1 to 2147483648"},
      {0, 0, nullptr, even, 1, OVERLAPBENCH_NULL_POINTER, "input is null"},
      {0, 0, even, nullptr, 1, OVERLAPBENCH_NULL_POINTER, "output is null"},
      {1, 0, odd, even, 1, OVERLAPBENCH_MISALIGNED,
       "input is not aligned to its elements of 2 bytes"},
      {0, 1, even, Address(0x1002), 1, OVERLAPBENCH_MISALIGNED,
       "output is not aligned to its elements of 4 bytes"},
  };
  for (const auto& one : all) {
    EXPECT_EQ(
        overlapbench_gelu_forward(0, one.type, one.form, one.input, one.output, one.count, nullptr),
        one.status);
    EXPECT_EQ(overlapbench_last_error(), one.message);
  }
  EXPECT_EQ(overlapbench_gelu_backward(0, 0, 0, even, nullptr, even, 1, nullptr),
            OVERLAPBENCH_NULL_POINTER);
  EXPECT_EQ(std::string(overlapbench_last_error()), "grad_output is null");
}

TEST(KernelsLibraryTest, RefusesOutputThatPartlyOverlapsItsInput) {
  void* const input = Address(0x1000);
  EXPECT_EQ(overlapbench_gelu_forward(0, 0, 0, input, Address(0x1004), 2, nullptr),
            OVERLAPBENCH_OVERLAPPING);
  EXPECT_EQ(std::string(overlapbench_last_error()), "output overlaps input");
  EXPECT_EQ(
      overlapbench_gelu_backward(0, 0, 0, input, Address(0x2004), Address(0x2000), 2, nullptr),
      OVERLAPBENCH_OVERLAPPING);
  EXPECT_EQ(std::string(overlapbench_last_error()), "grad_input overlaps grad_output");
}

TEST(KernelsLibraryTest, RefusesABadSoftmaxWithoutAGpu) {
  struct Refused {
    int32_t type;
    std::uintptr_t input;
    std::uintptr_t output;
    int64_t rows;
    int64_t columns;
    std::uintptr_t workspace;
    int32_t status;
    std::string message;
  };
  constexpr int64_t kLong = 1 << 16;  // columns for which SMs meet in the workspace
  const std::vector<Refused> all = {
      {3, 0x1000, 0x2000, 1, 8, 0x3000, OVERLAPBENCH_UNKNOWN_TYPE,
       "type is 3, must be 0 (float32), 1 (float16) or 2 (bfloat16)"},
      {0, 0x1000, 0x2000, 0, 8, 0x3000, OVERLAPBENCH_BAD_SIZE,
       "rows is 0, must be from 1 to 2147483647"},
      {0, 0x1000, 0x2000, 1, -8, 0x3000, OVERLAPBENCH_BAD_SIZE,
       "columns is -8, must be from 1 to 2147483647"},
      {0, 0x1000, 0x2000, INT64_MAX, 8, 0x3000, OVERLAPBENCH_BAD_SIZE,
       "rows is 9223372036854775807, must be from 1 to 2147483647"},
      {0, 0x1000, 0x2000, INT32_MAX, INT32_MAX, 0x3000, OVERLAPBENCH_BAD_SIZE,
       "rows x columns is 4611686014132420609, must be from 1 to 1099511627776"},
      {0, 0, 0x2000, 1, 8, 0x3000, OVERLAPBENCH_NULL_POINTER, "input is null"},
      {0, 0x1000, 0, 1, 8, 0x3000, OVERLAPBENCH_NULL_POINTER, "output is null"},
      {0, 0x1000, 0x80000, 1, kLong, 0, OVERLAPBENCH_NULL_POINTER, "workspace is null"},
      {1, 0x1001, 0x2000, 1, 8, 0x3000, OVERLAPBENCH_MISALIGNED,
       "input is not aligned to its elements of 2 bytes"},
      {2, 0x1000, 0x2001, 1, 8, 0x3000, OVERLAPBENCH_MISALIGNED,
       "output is not aligned to its elements of 2 bytes"},
      {0, 0x1000, 0x80000, 1, kLong, 0x100008, OVERLAPBENCH_MISALIGNED,
       "workspace is not aligned to 16 bytes"},
      {0, 0x1000, 0x1000, 1, 8, 0x3000, OVERLAPBENCH_OVERLAPPING, "output overlaps input"},
      {0, 0x1000, 0x101c, 1, 8, 0x3000, OVERLAPBENCH_OVERLAPPING, "output overlaps input"},
      {0, 0x1000, 0x80000, 1, kLong, 0x80010, OVERLAPBENCH_OVERLAPPING,
       "workspace overlaps output"},
  };
  for (const auto& one : all) {
    EXPECT_EQ(overlapbench_softmax_forward(0, one.type, Address(one.input), Address(one.output),
                                           one.rows, one.columns, Address(one.workspace), nullptr),
              one.status);
    EXPECT_EQ(overlapbench_last_error(), one.message);
  }
}

TEST(KernelsLibraryTest, TellsWhichSoftmaxRowsNeedAWorkspace) {
  constexpr int64_t kAll = OVERLAPBENCH_SOFTMAX_WORKSPACE_BYTES;
  struct Asked {
    int32_t type;
    int64_t columns;
    int64_t bytes;
  };
  // A block holds rows of up to 72 KiB.
  const std::vector<Asked> all = {{OVERLAPBENCH_FLOAT32, 18432, 0},
                                  {OVERLAPBENCH_FLOAT32, 18433, kAll},
                                  {OVERLAPBENCH_BFLOAT16, 36864, 0},
                                  {OVERLAPBENCH_BFLOAT16, 36865, kAll},
                                  {OVERLAPBENCH_FLOAT16, INT32_MAX, kAll}};
  for (const auto& one : all) {
    int64_t bytes = -1;
    EXPECT_EQ(overlapbench_softmax_workspace(one.type, one.columns, &bytes), OVERLAPBENCH_OK);
    EXPECT_EQ(bytes, one.bytes) << one.columns << " columns of type " << one.type;
  }
  EXPECT_EQ(overlapbench_softmax_workspace(0, 0, nullptr), OVERLAPBENCH_BAD_SIZE);
  EXPECT_EQ(overlapbench_softmax_workspace(0, 1, nullptr), OVERLAPBENCH_NULL_POINTER);
}

TEST(KernelsLibraryTest, RefusesBadMatricesWithoutAGpu) {
  struct Refused {
    int64_t n;
    int32_t grid_x;
    int32_t grid_y;
    int32_t work;
    int32_t status;
    std::string message;
  };
  const std::vector<Refused> all = {
      {64, 1, 1, 7, OVERLAPBENCH_UNKNOWN_TYPE, "work is 7, must be 0 (tile) or 1 (full)"},
      {0, 1, 1, 0, OVERLAPBENCH_BAD_SIZE, "n is 0, must be from 1 to 65536"},
      {40, 1, 1, 0, OVERLAPBENCH_BAD_SIZE, "n is 40, must be a multiple of 16"},
      {64, 5, 1, 0, OVERLAPBENCH_BAD_SIZE, "grid_x is 5, must be from 1 to 4"},
      {64, 1, 0, 1, OVERLAPBENCH_BAD_SIZE, "grid_y is 0, must be from 1 to 32768"},
      {64, 1, 1, 1, OVERLAPBENCH_OVERLAPPING, "c overlaps a"},
  };
  auto* const matrix = static_cast<float*>(Address(0x1000));
  for (const auto& one : all) {
    EXPECT_EQ(overlapbench_grid_gemm(0, matrix, matrix, matrix, one.n, one.grid_x, one.grid_y,
                                     one.work, nullptr),
              one.status);
    EXPECT_EQ(overlapbench_last_error(), one.message);
  }
}

TEST(KernelsLibraryTest, KeepsAMessageForEachThread) {
  overlapbench_gelu_forward(0, 9, 0, nullptr, nullptr, 1, nullptr);
  const std::string here = overlapbench_last_error();
  std::string there = "unset";
  std::thread([&there] { there = overlapbench_last_error(); }).join();
  EXPECT_NE(here, "");
  EXPECT_EQ(there, "");
}

class KernelsLibraryOnGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (VisibleGpus() < 1) GTEST_SKIP() << "needs a GPU, 0 visible";
    device_ = OpenCudaDevice(0);
    stream_ = device_->CreateStream();
  }
  Buffer Floats(const std::vector<float>& values) {
    Buffer buffer = device_->Allocate(values.size() * sizeof(float), MemoryKind::kDevice);
    stream_->Copy(buffer.data(), values.data(), buffer.bytes());
    return buffer;
  }
  std::vector<float> Read(const Buffer& buffer) {
    std::vector<float> values(buffer.bytes() / sizeof(float));
    stream_->Copy(values.data(), buffer.data(), buffer.bytes());
    stream_->Synchronize(kPatience, "reading a result");
    return values;
  }
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(KernelsLibraryOnGpuTest, ComputesGelu) {
  const std::vector<float> x = {-3, -1, -0.5, 0, 0.25, 1, 2};
  const std::vector<float> poison(x.size(), std::nanf(""));
  const Buffer input = Floats(x);
  const Buffer output = Floats(poison);
  const Buffer grad = Floats(std::vector<float>(x.size(), 2));
  for (const auto& [code, form] : {std::pair{OVERLAPBENCH_GELU_TANH, GeluForm::kTanh},
                                   std::pair{OVERLAPBENCH_GELU_ERF, GeluForm::kErf}}) {
    ASSERT_EQ(overlapbench_gelu_forward(0, OVERLAPBENCH_FLOAT32, code, input.data(), output.data(),
                                        7, stream_->native()),
              OVERLAPBENCH_OK)
        << overlapbench_last_error();
    const auto y = Read(output);
    ASSERT_EQ(overlapbench_gelu_backward(0, OVERLAPBENCH_FLOAT32, code, input.data(), grad.data(),
                                         output.data(), 7, stream_->native()),
              OVERLAPBENCH_OK);
    const auto slope = Read(output);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], GeluValue(form, x[i]), 1e-6);
      EXPECT_NEAR(slope[i], 2 * GeluDerivative(form, x[i]), 1e-6);
    }
  }
}

// Rows that a warp holds, that a block holds, and that are cut into parts; only parts need the
// workspace. Each is called twice, since a call must leave the workspace as the next one needs it.
TEST_F(KernelsLibraryOnGpuTest, ComputesSoftmax) {
  constexpr int kRows = 3;
  const Buffer workspace = Floats(std::vector<float>(OVERLAPBENCH_SOFTMAX_WORKSPACE_BYTES / 4, 0));
  for (const int columns : {1, 100, 5000, 40000, 100003}) {
    std::vector<float> x(static_cast<std::size_t>(kRows) * columns);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1001) / 100;
    const Buffer input = Floats(x);
    int64_t needed_bytes = 0;
    overlapbench_softmax_workspace(OVERLAPBENCH_FLOAT32, columns, &needed_bytes);
    void* const needed = needed_bytes > 0 ? workspace.data() : nullptr;
    for (int call = 0; call < 2; ++call) {
      const Buffer output = Floats(std::vector<float>(x.size(), std::nanf("")));
      ASSERT_EQ(overlapbench_softmax_forward(0, OVERLAPBENCH_FLOAT32, input.data(), output.data(),
                                             kRows, columns, needed, stream_->native()),
                OVERLAPBENCH_OK)
          << overlapbench_last_error();
      const auto y = Read(output);
      for (int row = 0; row < kRows; ++row) {
        const float* x_row = x.data() + static_cast<std::size_t>(row) * columns;
        const float* y_row = y.data() + static_cast<std::size_t>(row) * columns;
        double sum = 0;  // the values are at most 10: no maximum is needed in double precision
        for (int i = 0; i < columns; ++i) sum += std::exp(static_cast<double>(x_row[i]));
        for (int i = 0; i < columns; ++i) {
          const double expected = std::exp(static_cast<double>(x_row[i])) / sum;
          ASSERT_NEAR(y_row[i] / expected, 1, 2e-6) << columns << " columns, " << row << "," << i;
        }
      }
    }
  }
}

// In this workspace the first part is marked as taken, so nothing takes it, and its row is lost.
TEST_F(KernelsLibraryOnGpuTest, EndsOnAWorkspaceThatWasNotZero) {
  if (device_->info().compute_capability < 90) GTEST_SKIP() << "rows in parts need capability 9.0";
  constexpr int kColumns = 100003;
  std::vector<float> words(OVERLAPBENCH_SOFTMAX_WORKSPACE_BYTES / 4, 0);
  const auto softmax = [&] {
    const Buffer workspace = Floats(words);
    const Buffer input = Floats(std::vector<float>(kColumns, 1));
    const Buffer output = Floats(std::vector<float>(kColumns, 1));
    overlapbench_softmax_forward(0, OVERLAPBENCH_FLOAT32, input.data(), output.data(), 1, kColumns,
                                 workspace.data(), stream_->native());
    return Read(output).back();
  };
  words[1] = std::bit_cast<float>(1U);
  EXPECT_NO_THROW(softmax());
  words[1] = 0;
  EXPECT_NEAR(softmax() * kColumns, 1, 1e-5) << "the context is as it was";
}

TEST_F(KernelsLibraryOnGpuTest, MultipliesMatrices) {
  constexpr long kN = 32;
  std::vector<float> a(kN * kN);
  std::vector<float> b(kN * kN);
  for (long i = 0; i < kN * kN; ++i) {
    a[i] = static_cast<float>(i % 7 - 3);
    b[i] = static_cast<float>(i % 5 - 2);
  }
  const Buffer buffer_a = Floats(a);
  const Buffer buffer_b = Floats(b);
  for (const bool full : {false, true}) {
    const Buffer buffer_c = Floats(std::vector<float>(kN * kN, 1e9F));
    ASSERT_EQ(overlapbench_grid_gemm(
                  0, static_cast<float*>(buffer_a.data()), static_cast<float*>(buffer_b.data()),
                  static_cast<float*>(buffer_c.data()), kN, 1, 2,
                  full ? OVERLAPBENCH_WORK_FULL : OVERLAPBENCH_WORK_TILE, stream_->native()),
              OVERLAPBENCH_OK)
        << overlapbench_last_error();
    const auto c = Read(buffer_c);
    for (int row = 0; row < kN; ++row) {
      for (int column = 0; column < kN; ++column) {
        float expected = 0;  // of whole numbers: exact
        for (int k = 0; k < kN; ++k) expected += a[row * kN + k] * b[k * kN + column];
        if (!full && column >= 16) expected = 1e9F;
        ASSERT_EQ(c[row * kN + column], expected) << row << "," << column;
      }
    }
  }
}

TEST_F(KernelsLibraryOnGpuTest, RefusesMemoryOfTheHostAndOtherDevices) {
  const Buffer input = Floats({1});
  std::vector<float> on_host(1, 7);
  EXPECT_EQ(overlapbench_gelu_forward(0, OVERLAPBENCH_FLOAT32, 0, input.data(), on_host.data(), 1,
                                      stream_->native()),
            OVERLAPBENCH_WRONG_DEVICE);
  EXPECT_EQ(std::string(overlapbench_last_error()), "output is not memory of a CUDA device");
  EXPECT_EQ(on_host[0], 7);
  alignas(16) std::array<float, 4> workspace{};
  constexpr int kColumns = 1 << 16;  // SMs share such a row
  const Buffer row = Floats(std::vector<float>(kColumns, 1));
  const Buffer output = Floats(std::vector<float>(kColumns, 1));
  EXPECT_EQ(overlapbench_softmax_forward(0, OVERLAPBENCH_FLOAT32, row.data(), output.data(), 1,
                                         kColumns, workspace.data(), stream_->native()),
            OVERLAPBENCH_WRONG_DEVICE);
  EXPECT_EQ(std::string(overlapbench_last_error()), "workspace is not memory of a CUDA device");
  EXPECT_EQ(overlapbench_gelu_forward(1, OVERLAPBENCH_FLOAT32, 0, input.data(), input.data(), 1,
                                      stream_->native()),
            OVERLAPBENCH_WRONG_DEVICE);
  EXPECT_EQ(std::string(overlapbench_last_error()), "the current device is 0, not 1");
}

TEST_F(KernelsLibraryOnGpuTest, SkipsTheDeviceCheckOnRequest) {
  const Buffer input = Floats({0, 3e38F});
  const Buffer output = Floats({7, 7});
  EXPECT_EQ(overlapbench_gelu_forward(OVERLAPBENCH_TRUSTED_DEVICE, OVERLAPBENCH_FLOAT32, 0,
                                      input.data(), output.data(), 2, stream_->native()),
            OVERLAPBENCH_OK);
  EXPECT_EQ(Read(output), (std::vector<float>{0, 3e38F}));
}

TEST_F(KernelsLibraryOnGpuTest, ReportsWhetherAStreamIsCapturing) {
  int32_t capturing = 7;
  EXPECT_EQ(overlapbench_stream_is_capturing(stream_->native(), &capturing), OVERLAPBENCH_OK);
  EXPECT_EQ(capturing, 0);
  auto* const stream = static_cast<cudaStream_t>(stream_->native());
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(overlapbench_stream_is_capturing(stream, &capturing), OVERLAPBENCH_OK);
  EXPECT_EQ(capturing, 1);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(overlapbench_stream_is_capturing(stream, nullptr), OVERLAPBENCH_NULL_POINTER);
}

}  // namespace
}  // namespace overlapbench

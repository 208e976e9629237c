// TensorStep: an operation on tensors that is checked against what its inputs hold.
//
// An oracle knows any element from seeds alone (workload/tensor.h). In a chain of many operations
// it would have to compute them all, for every element that it is asked for. A step's result is
// therefore compared with the double-precision result of the values that its inputs do hold, read
// back from the device. Each step of a chain is checked so (WorkPlan::is_result), and the chain is
// right if all of them are.
//
// Comparing takes the host some tenths of a second for attention, and a benchmark's runs do the
// same steps. A result whose every bit was found right before, for inputs with the same bits, is
// right.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "workload/tensor.h"

namespace overlapbench {

// Rows and columns of tensors as they are on this rank's device. Each row is read once, and so is
// all of a tensor whose columns are asked for. Whoever asks for a row and the next one will ask for
// more of them: those are read at a time. Threads may ask at once.
class HeldRows {
 public:
  HeldRows(Stream& stream, std::chrono::milliseconds timeout)
      : stream_(stream), timeout_(timeout) {}
  const std::vector<float>& Row(const SharedTensor& tensor, long row);
  std::vector<float> Column(const SharedTensor& tensor, long column);
  // All that something was read of.
  [[nodiscard]] std::vector<SharedTensor> tensors() const;

 private:
  struct Held {
    SharedTensor tensor;
    std::vector<std::vector<float>> rows;
    std::unique_ptr<std::atomic<bool>[]> has_row;
    std::vector<std::byte> whole;
    std::atomic<bool> has_whole = false;
  };
  static constexpr std::size_t kMostTensors = 8;  // of a step

  Held& Of(const SharedTensor& tensor);
  void ReadRows(Held& held, long first, long count) const;
  [[nodiscard]] std::vector<std::byte> Read(const void* data, std::size_t bytes) const;

  Stream& stream_;
  std::chrono::milliseconds timeout_;
  // What is read stays where it is, and is published once it is complete.
  std::array<Held, kMostTensors> held_;
  std::atomic<std::size_t> count_ = 0;
  std::mutex reading_;
};

struct TensorStep {
  std::vector<SharedTensor> inputs =
      {};                  // filled with random fractions, if no other work makes them
  std::uint32_t seed = 0;  // of the first; the others' follow kSeedsApart later
  SharedTensor output = {};
  Cost cost = {};
  // A part is as many of the output's rows.
  std::function<void(Stream& stream, long first, long rows)> enqueue = {};
  std::function<double(HeldRows& held, long row, long column)> expected = {};
  double tolerance = 0;  // relative to the root mean square of the output
  // Workload::IneffectiveKnob(), of those that have a knob.
  std::function<std::string()> ineffective_knob = {};

  static constexpr std::uint32_t kSeedsApart = 1U << 16;
};

// A step that reads `inputs` and writes `output` once each, and rounds its results once.
TensorStep StepOn(std::vector<SharedTensor> inputs, SharedTensor output, std::uint32_t seed);

// to = from, which may be host memory.
TensorStep CopyStep(const SharedTensor& from, const SharedTensor& to, std::uint32_t seed);

std::unique_ptr<Workload> MakeTensorStep(const Machine& machine, TensorStep step);

}  // namespace overlapbench

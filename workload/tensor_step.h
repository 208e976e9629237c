// TensorStep: an operation on tensors that is checked against its inputs' actual values.
//
// An oracle computes any element from seeds alone (workload/tensor.h). In a chain of many
// operations it would have to compute them all, for every element. A step's result is therefore
// compared with the double-precision result of its inputs' actual values, read back from the
// device. Each step of a chain is checked in this way (WorkPlan::is_result), and the chain is right
// if all of them are.
//
// A single operation may have an oracle instead.
//
// For attention, the comparison takes the host some tenths of a second, and a benchmark's runs do
// the same steps. A result that is bit-identical to one already found right, for bit-identical
// inputs, is therefore not compared again.
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

// Rows and columns of tensors as they are on this rank's device. Each row is read once, and so is a
// whole tensor if a column of it is requested. A request for the row after one already read
// prefetches the rows that follow. May be called concurrently.
class HeldRows {
 public:
  HeldRows(Stream& stream, std::chrono::milliseconds timeout)
      : stream_(stream), timeout_(timeout) {}
  const std::vector<float>& Row(const SharedTensor& tensor, long row);
  std::vector<float> Column(const SharedTensor& tensor, long column);
  // All tensors that were read from.
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
  // Data that was read is never moved, and is published once it is complete.
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
  // A part is `rows` of the output's rows.
  std::function<void(Stream& stream, long first, long rows)> enqueue = {};
  std::function<ExpectedValue(HeldRows& held, long row, long column)> expected = {};
  // Of operations whose result follows from their inputs' oracles: it is then checked against this
  // one, not against `expected`, and so is what other works make of it (workload/tensor.h).
  Tensor::Oracle oracle = {};
  std::function<RoundingError()> error = {};  // of a right output
  // Workload::IneffectiveKnob(), for steps that have a knob.
  std::function<std::string()> ineffective_knob = {};

  static constexpr std::uint32_t kSeedsApart = 1U << 16;
};

// A step that reads `inputs` and writes `output` once each. Its results are sums of at most as many
// terms as an input has columns, in float32, and are stored once.
TensorStep StepOn(std::vector<SharedTensor> inputs, SharedTensor output, std::uint32_t seed);

// to = from, which may be host memory.
TensorStep CopyStep(const SharedTensor& from, const SharedTensor& to, std::uint32_t seed);

std::unique_ptr<Workload> MakeTensorStep(const Machine& machine, TensorStep step);

}  // namespace overlapbench

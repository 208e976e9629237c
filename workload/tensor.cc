#include "workload/tensor.h"

#include <algorithm>

#include "ranks/ranks.h"
#include "workload/data.h"

namespace overlapbench {
namespace {

// Ranks have at most thousands of blocks. Mixed, because the seeds of a step's inputs follow each
// other at a fixed distance, too: the second input of one rank would be the first of another.
std::uint32_t SeedOf(const TensorShape& shape, std::uint32_t seed, int rank, int block) {
  constexpr int kApart = 1 << 12;
  const int of_rank = shape.is_shared ? 0 : rank;
  return seed + Mix(static_cast<std::uint32_t>(of_rank * kApart + shape.OwnerOf(rank, block)));
}

}  // namespace

void Tensor::Connect() {
  if (memory_->buffer.data() == nullptr) memory_->buffer = memory_->allocate(shape_.bytes());
}

void Tensor::Fill(Stream& stream, int rank, std::uint32_t seed) {
  const long block_count = shape_.block_rows() * shape_.columns;
  for (int block = 0; block < shape_.blocks; ++block) {
    FillFractions(stream, Row(block * shape_.block_rows()), block_count, shape_.element,
                  SeedOf(shape_, seed, rank, block));
  }
  const auto oracle = [shape = shape_, seed](int of_rank, long row, long column) -> double {
    const auto block = static_cast<int>(row % shape.stored_rows() / shape.block_rows());
    return RandomFraction(SeedOf(shape, seed, of_rank, block),
                          row % shape.block_rows() * shape.columns + column);
  };
  own_ = {oracle, [] { return RoundingError(); }};
  is_made_ = false;
  memory_->made = {};
}

void Tensor::PoisonRows(Stream& stream, long first, long rows) const {
  Poison(stream, Row(first), rows * shape_.columns * SizeOf(shape_.element));
}

Verdict Tensor::Verify(const Machine& machine, Stream& stream, long first, long rows,
                       int samples) const {
  const MatrixView part{Row(first), shape_.element, rows, shape_.columns, shape_.columns};
  const auto expected = [&](long row, long column) {
    return Expected(machine.ranks.rank(), first + row, column);
  };
  return CheckSample(machine.device, stream, part, expected, error(), machine.timeout,
                     {samples, CheckingThreads(machine.ranks), first});
}

std::uint64_t Tensor::Fingerprint(const Machine& machine, Stream& stream) const {
  const std::size_t block_bytes = shape_.bytes() / shape_.blocks;
  std::uint64_t sum = 0;
  for (int block = 0; block < shape_.blocks; ++block) {
    const auto owner = static_cast<std::uint64_t>(shape_.OwnerOf(machine.ranks.rank(), block));
    sum +=
        FingerprintOnDevice(machine.device, stream, Row(block * shape_.block_rows()), block_bytes,
                            owner * block_bytes / sizeof(std::uint32_t), machine.timeout);
  }
  return sum;
}

std::vector<TensorRows> LeftOf(const std::vector<TensorRows>& written) {
  std::vector<TensorRows> left;
  for (const TensorRows& rows : written) {
    std::erase_if(left, [&](const TensorRows& one) {
      return one.tensor != rows.tensor && one.tensor->Shares(*rows.tensor);
    });
    left.push_back(rows);
  }
  return left;
}

Result CheckLeft(const Machine& machine, Stream& stream, const std::vector<TensorRows>& written) {
  constexpr std::uint64_t kPrime = 1099511628211U;  // FNV-1a's, to tell the tensors' order
  constexpr int kFewest = 16;
  const std::vector<TensorRows> left = LeftOf(written);
  const int samples =
      std::max(kFewest, kCheckedElements / std::max(1, static_cast<int>(left.size())));
  Result result;
  SharedTensor last;
  for (const auto& [tensor, first, rows] : left) {
    if (tensor != last)
      result.fingerprint = result.fingerprint * kPrime + tensor->Fingerprint(machine, stream);
    last = tensor;
    const Verdict verdict = tensor->Verify(machine, stream, first, rows, samples);
    if (verdict.max_rel_err >= result.verdict.max_rel_err) result.verdict = verdict;
    if (!verdict.fault.empty()) return {verdict, result.fingerprint};
  }
  return result;
}

SharedTensor MakeTensor(Device& device, const TensorShape& shape, MemoryKind kind) {
  return std::make_shared<Tensor>(
      shape, [&device, kind](std::size_t bytes) { return device.Allocate(bytes, kind); });
}

}  // namespace overlapbench

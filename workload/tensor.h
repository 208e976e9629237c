// Tensor: a matrix on the device that several workloads share. One writes it, others read it.
//
// A scenario makes the tensors of a step and passes them to the works that it connects. A tensor
// also knows its expected contents: its oracle returns any element on any rank. So a work can check
// its own result, and derive its expected result from its inputs' oracles. Works are reset in
// reverse order: each fills its inputs with random values, and an earlier work that makes them, if
// the run has one, then replaces their oracle by its own. Oracles are called later, when a result
// is verified.
//
// Rows are cut into equal blocks, one for each rank that owns a part of the matrix. In plain order,
// block b is rank b's. In rotated order, block b belongs to the rank b places before this one.
// Every rank then begins with its own block and sends, in each step, from the same offset as all
// others, which is all that a ring needs.
//
// A tensor may keep fewer rows than it has, as alternating buffers do. Row kept_rows + i overwrites
// row i, and only the last rows can be verified.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "workload/data.h"
#include "workload/element.h"
#include "workload/rounding_error.h"
#include "workload/sample_check.h"
#include "workload/workload.h"

namespace overlapbench {

struct TensorShape {
  Element element = Element::kFloat32;
  long rows = 0;
  long columns = 0;
  int blocks = 1;          // of rows; divides them
  bool rotated = false;    // the order of the blocks
  bool is_shared = false;  // one matrix distributed over the ranks, not one per rank
  long kept_rows = 0;      // rows in memory at a time; 0: all. Needs blocks = 1

  [[nodiscard]] long stored_rows() const { return kept_rows > 0 ? kept_rows : rows; }
  [[nodiscard]] std::size_t bytes() const { return stored_rows() * columns * SizeOf(element); }
  [[nodiscard]] long block_rows() const { return stored_rows() / blocks; }
  [[nodiscard]] int OwnerOf(int rank, int block) const {
    return rotated ? (rank - block + blocks) % blocks : block;
  }
};

class Tensor {
 public:
  // Several threads call it concurrently.
  using Oracle = std::function<double(int rank, long row, long column)>;
  // By how much a right result differs.
  using Error = std::function<RoundingError()>;
  using Allocate = std::function<Buffer(std::size_t bytes)>;

  // `allocate` provides its memory. For tensors that a collective touches, that is its
  // communicator.
  Tensor(const TensorShape& shape, Allocate allocate)
      : shape_(shape), memory_(std::make_shared<Memory>(std::move(allocate))) {}
  // The same memory with an oracle of its own: the result of an in-place operation. In runs without
  // that operation, it expects what an earlier work made there.
  [[nodiscard]] std::shared_ptr<Tensor> Alias() const {
    auto alias = std::make_shared<Tensor>(*this);
    alias->is_alias_ = true;
    return alias;
  }

  // Allocates its memory, unless it has. Every work that uses the tensor calls it in
  // Workload::Connect, since ranks may have to allocate together.
  void Connect();

  [[nodiscard]] const TensorShape& shape() const { return shape_; }
  [[nodiscard]] bool Shares(const Tensor& other) const { return memory_ == other.memory_; }
  // Identifies its memory, also before it is allocated.
  [[nodiscard]] const void* memory() const { return memory_.get(); }
  [[nodiscard]] long count() const { return shape_.rows * shape_.columns; }
  [[nodiscard]] std::byte* Row(long row) const {
    return static_cast<std::byte*>(memory_->buffer.data()) +
           row % shape_.stored_rows() * shape_.columns * SizeOf(shape_.element);
  }

  // All of it, as laid out in memory.
  [[nodiscard]] MatrixView View() const {
    return {Row(0), shape_.element, shape_.rows, shape_.columns, shape_.columns};
  }

  // Fills it with random fractions that differ between blocks and, unless the matrix is shared,
  // ranks.
  void Fill(Stream& stream, int rank, std::uint32_t seed);
  // These rows must be contiguous in memory: none may overwrite the first one.
  void PoisonRows(Stream& stream, long first, long rows) const;
  void Expect(Oracle oracle, Error error) {
    own_ = {std::move(oracle), std::move(error)};
    is_made_ = true;
    if (!is_alias_) memory_->made = own_;
  }
  [[nodiscard]] double Expected(int rank, long row, long column) const {
    return expectation().oracle(rank, row, column);
  }
  [[nodiscard]] RoundingError error() const { return expectation().error(); }

  // Whether every element was written, and a random sample of them, the corners included, is as
  // expected (workload/sample_check.h). Waits for `stream`.
  [[nodiscard]] Verdict Verify(const Machine& machine, Stream& stream) const {
    return Verify(machine, stream, 0, shape_.rows);
  }
  [[nodiscard]] Verdict Verify(const Machine& machine, Stream& stream, long first, long rows,
                               int samples = kCheckedElements) const;
  // A hash of all elements, the owners' blocks in the order of ranks. Waits for `stream`.
  [[nodiscard]] std::uint64_t Fingerprint(const Machine& machine, Stream& stream) const;

 private:
  struct Expectation {
    Oracle oracle;
    Error error;
  };
  struct Memory {
    Allocate allocate;
    Buffer buffer = {};
    Expectation made = {};  // set by a work that makes this memory's contents; none: filled
  };

  [[nodiscard]] const Expectation& expectation() const {
    return is_alias_ && !is_made_ && memory_->made.oracle ? memory_->made : own_;
  }

  TensorShape shape_;
  std::shared_ptr<Memory> memory_;
  bool is_alias_ = false;
  bool is_made_ = false;  // by a work, and not filled
  Expectation own_;
};

using SharedTensor = std::shared_ptr<Tensor>;

struct TensorRows {
  SharedTensor tensor;
  long first = 0;
  long rows = 0;
};

// The rows that remain after a work writes these in order: none of a tensor whose memory a later
// one shares.
std::vector<TensorRows> LeftOf(const std::vector<TensorRows>& written);

// The result of a work that writes several tensors.
struct Result {
  Verdict verdict;
  std::uint64_t fingerprint = 0;
};
// Checks the rows that remain, and hashes their whole tensors. The sample's elements are divided
// among the pieces. Waits for `stream`.
Result CheckLeft(const Machine& machine, Stream& stream, const std::vector<TensorRows>& written);

// Tensors that no collective touches.
SharedTensor MakeTensor(Device& device, const TensorShape& shape,
                        MemoryKind kind = MemoryKind::kDevice);

}  // namespace overlapbench

// Which rows of the families do not exist, and the reason that each one gives: on the host backend,
// and on an H200.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scenarios.h"

namespace overlapbench {
namespace {

struct ExcludedRow {
  const char* scenario;
  Values values;
  std::string reason;  // "": the row exists
};

std::vector<ExcludedRow> RowsOnTheHost() {
  const std::string alike = "the host backend has one kind of memory: use memory:pinned";
  return {
      {"Copy/Pipelined",
       {{"elements", "1048576"}, {"pipeline_streams", "3"}},
       "elements must be a multiple of pipeline_streams"},
      {"Copy/Sequential", {{"intensity", "16777216"}}, "intensity must be at most 2^24 - 256"},
      {"Copy/Fragmented",
       {{"bytes", "64"}, {"fragments", "32"}, {"call", "loop"}},
       "bytes must be a multiple of 4 * fragments"},
      {"Copy/Fragmented", {{"call", "batch"}}, "copies in a batch exist on the cuda backend only"},
      {"Launch/Pieces",
       {{"call", "loop"}, {"total_steps", "100"}, {"launches", "16"}},
       "total_steps must be a multiple of launches"},
      {"Supply/Batches", {{"batch_bytes", "6"}}, "batch_bytes must be a multiple of 4"},
      {"Softmax/Fused",
       {{"columns", "262144"}, {"matrix_bytes", "512K"}, {"precision", "fp32"}},
       "matrix_bytes must hold at least one row of columns"},
      {"Comm/AllReduce", {{"bytes", "6"}}, "bytes must be a multiple of ranks x element size"},
      {"Comm/AllReduce", {{"type", "float16"}}, "MPI does not support float16"},
      {"Comm/AllReduce", {{"type", "float64"}, {"place", "in"}}, ""},
      {"Comm/AllToAll", {{"place", "in"}}, "MPI does not support this collective in place"},
      {"Comm/ReduceScatter", {{"place", "in"}}, "MPI does not support this collective in place"},
      {"Copy/Sequential", {{"memory", "pageable"}}, alike},
      {"Copy/Pipelined", {{"memory", "pageable"}}, alike},
      {"Copy/ComputeTransfer", {{"memory", "registered"}}, alike},
      {"Copy/Fragmented", {{"call", "loop"}}, ""},
      {"Copy/Sequential", {{"memory", "pinned"}}, ""},
      {"Supply/Batches", {}, ""}};
}

std::vector<ExcludedRow> StepsOnTheHost() {
  const int ranks = TestRanks().size();
  return {
      {"Layers/CrossLayer",
       {{"tokens", "30"}, {"independent", "25"}},
       "tokens x independent must be a multiple of 100"},
      {"Layers/DoubleBuffer", {{"width", "24"}}, "width must be a multiple of 16"},
      {"MixedPrecision/Step", {{"width", "24"}}, "width must be a multiple of 16"},
      {"Prefetch/Batches", {{"workers", "0"}}, "workers must be at least 1; Supply accepts 0"},
      {"Prefetch/Batches",
       {{"workers", "1"}, {"batch_bytes", "6"}},
       "batch_bytes must be a multiple of 4"},
      {"Ddp/Batch/AllReduce", {{"bytes", "24"}}, "bytes must be a multiple of 16"},
      {"Ddp/Batch/AllReduce", {{"width", "24"}}, "width must be a multiple of 16"},
      {"Pp/GPipe/Delay", {{"bytes", "6"}}, "bytes must be a multiple of 4"},
      {"Pp/Interleaved/Gemm", {{"layers", "3"}}, "layers must be a multiple of virtual"},
      {"Pp/Interleaved/Delay",
       {{"forward_us", "3"}},
       "forward_us and backward_us must be multiples of virtual"},
      {"Pp/Interleaved/Delay",
       {{"microbatches", "5"}},
       ranks == 1 ? "" : fmt::format("microbatches must be a multiple of the {} ranks", ranks)},
      {"Pp/Interleaved/Gemm", {{"layers", "4"}}, ""},
      {"Moe/DispatchCombine", {{"hidden", "24"}}, "hidden must be a multiple of 16"},
      {"Moe/DispatchCombine", {{"experts", "4"}, {"topk", "5"}}, "topk must be at most experts"},
      {"Moe/DispatchCombine", {{"experts", "4"}, {"topk", "4"}}, ""},
      {"Moe/DispatchCombine",
       {{"tokens", "33"}, {"microbatches", "2"}},
       "tokens must be a multiple of microbatches"},
      {"Moe/DispatchCombine",
       {{"tokens", "4M"}, {"experts", "8"}, {"topk", "8"}},
       "tokens x topk x ranks must be at most 16777216"},
      {"Moe/DispatchCombine",
       {{"experts", "7"}, {"topk", "2"}},
       ranks == 1 ? "" : fmt::format("experts:7 must be a multiple of the {} ranks", ranks)},
      {"Decode/Layer",
       {{"tokens", "15"}, {"batches", "2"}},
       "tokens must be a multiple of batches"},
      {"Decode/Layer", {{"tokens", "16"}, {"batches", "2"}}, ""},
      {"Decode/Layer", {{"hidden", "24"}}, "hidden must be a multiple of 16"},
      {"Decode/Experts", {{"experts", "4"}, {"topk", "5"}}, "topk must be at most experts"},
      {"Fsdp/Prefetch", {{"comm_priority", "2"}}, ""},
      {"Fsdp/Prefetch", {{"comm_priority", "3"}}, "comm_priority must be from 0 to 2"},
      {"Fsdp/Prefetch", {{"width", "24"}}, "width must be a multiple of 16"},
      {"Fsdp/Prefetch", {{"layers", "3"}, {"prefetch", "3"}}, "prefetch must be less than layers"},
      {"Fsdp/Prefetch", {{"layers", "3"}, {"prefetch", "2"}}, ""}};
}

std::vector<ExcludedRow> TensorParallelOnTheHost() {
  const int ranks = TestRanks().size();
  return {{"Tp/ColumnParallel",
           {{"chunks", "3"}, {"tokens", "12"}},
           ranks == 1 ? "" : fmt::format("chunks must be 1 or a multiple of the {} ranks", ranks)},
          {"Tp/RowParallel",
           {{"chunks", "1"}, {"sums", "direct"}, {"tokens", "12"}},
           "sums go by a ring or directly in chunks with reduce:scatter only"},
          {"Tp/RowParallel",
           {{"chunks", "2"}, {"reduce", "all"}, {"sums", "ring"}, {"tokens", "12"}},
           "sums go by a ring or directly in chunks with reduce:scatter only"},
          {"Tp/ColumnParallel", {{"chunks", "4"}, {"tokens", "12"}}, ""},
          {"Tp/RowParallel",
           {{"reduce", "scatter"}, {"chunks", "2"}, {"tokens", "13"}},
           "tokens must be a multiple of chunks and ranks"},
          {"Tp/RowParallel",
           {{"reduce", "all"}, {"chunks", "2"}, {"tokens", "13"}},
           "tokens must be a multiple of chunks"},
          {"Tp/RowParallel", {{"reduce", "all"}, {"chunks", "1"}, {"tokens", "13"}}, ""},
          {"Tp/Block/Forward",
           {{"sequences", "3"}, {"microbatches", "2"}},
           "sequences must be a multiple of microbatches"},
          {"Tp/Block/Forward",
           {{"sequences", "4"}, {"microbatches", "2"}, {"tokens", "66"}},
           "tokens must be a multiple of sequences"},
          {"Tp/Block/Forward", {{"sequences", "4"}, {"microbatches", "2"}, {"tokens", "68"}}, ""}};
}

std::vector<ExcludedRow> RowsOnAnH200() {
  const std::string few = "sm_target must be below the GPU's 132 SMs";
  return {
      {"Copy/Fragmented", {{"call", "graph"}}, ""},
      {"Copy/Fragmented", {{"call", "batch"}}, ""},
      {"Launch/Pieces", {{"call", "graph"}}, ""},
      {"Ddp/Buckets", {{"sm_target", "132"}}, few},
      {"Fsdp/Prefetch", {{"sm_target", "132"}}, few},
      {"Moe/DispatchCombine", {{"sm_target", "132"}}, few},
      {"Moe/DispatchCombine",
       {{"sm_target", "131"}, {"products", "grouped"}},
       "sm_target is for products:each; a grouped product takes all SMs"},
      {"Decode/Experts",
       {{"sm_target", "131"}, {"products", "grouped"}},
       "sm_target is for products:each; a grouped product takes all SMs"},
      {"Tp/Block/Forward", {{"sm_target", "132"}}, few},
      {"Layers/DoubleBuffer", {{"sm_target", "132"}}, few},
      {"Ddp/Batch/AllReduce", {{"sm_target", "132"}}, few},
      {"Copy/Pipelined", {{"memory", "pageable"}}, ""},
      {"Ddp/Batch/AllReduce",
       {{"batch", "grouped"}, {"transport", "nccl_sym"}},
       "nccl_sym does not support grouped calls; use nccl"},
      {"Ddp/Batch/AllReduce",
       {{"batch", "single"}, {"transport", "copy"}},
       "transport:copy supports at most 10 tensors"},
      {"Ddp/Batch/AllReduce", {{"batch", "single"}, {"transport", "nccl"}, {"tensors", "11"}}, ""},
      {"Tp/Block/Forward",
       {{"sequences", "4"}, {"microbatches", "2"}, {"tokens", "400"}},
       "sequences of 100 tokens are not a multiple of 128"},
      {"Comm/AllReduce", {{"type", "float16"}}, ""},
      {"Comm/ReduceScatter", {{"place", "in"}}, ""},
      {"Comm/AllToAll", {{"place", "in"}}, "NCCL does not support this collective in place"},
      {"Pp/GPipe/Delay",
       {{"transport", "sm_store"}},
       "sm_store does not support transfers between two ranks; use nccl or copy"}};
}

TEST(ExcludedRows, SayWhyTheyDoNotExist) {
  for (const auto& rows : {RowsOnTheHost(), StepsOnTheHost(), TensorParallelOnTheHost()})
    for (const auto& [scenario, values, reason] : rows)
      EXPECT_EQ(ScenarioReport(scenario, values).excluded(), reason)
          << scenario << testing::PrintToString(values);
  for (const auto& [scenario, values, reason] : RowsOnAnH200())
    EXPECT_EQ(ScenarioReport(scenario, values, PosingDevice::H200()).excluded(), reason)
        << scenario << testing::PrintToString(values);
}

// NCCL's symmetric kernels need multiples of 4K, in two buffers.
TEST(ExcludedRows, HaveTheBytesOfTheirCollectives) {
  struct {
    const char* scenario;
    Values values;
    int bytes;
    bool in_place;
  } const rows[] = {
      {"Ddp/Buckets", {{"width", "48"}}, 48 * 48 * 2, true},
      {"Ddp/Buckets", {{"width", "64"}}, 64 * 64 * 2, true},
      {"Fsdp/Prefetch", {{"width", "48"}}, 48 * 48 * 2, false},
      {"Fsdp/Prefetch", {{"width", "64"}}, 64 * 64 * 2, false},
      {"Layers/DoubleBuffer", {{"tokens", "64"}, {"width", "48"}}, 64 * 48 * 2, false},
      {"Layers/DoubleBuffer", {{"tokens", "128"}, {"width", "48"}}, 128 * 48 * 2, false},
      {"Tp/RowParallel",
       {{"reduce", "all"}, {"model", "small"}, {"tokens", "16"}, {"chunks", "2"}},
       16 / 2 * 256 * 2,
       true},
      {"Tp/RowParallel",
       {{"reduce", "all"}, {"model", "small"}, {"tokens", "16"}, {"chunks", "4"}},
       16 / 4 * 256 * 2,
       true}};
  for (const auto& [scenario, values, bytes, in_place] : rows) {
    Values symmetric = values;
    symmetric["transport"] = "nccl_sym";
    const std::string why = ScenarioReport(scenario, symmetric, PosingDevice::H200()).excluded();
    EXPECT_EQ(why == "nccl_sym needs bytes to be a multiple of 4K", bytes % 4096 != 0)
        << scenario << " of " << bytes << ": " << why;
    EXPECT_EQ(why == "nccl_sym needs two buffers (place:out)", in_place && bytes % 4096 == 0)
        << scenario << " of " << bytes << ": " << why;
  }
}

}  // namespace
}  // namespace overlapbench

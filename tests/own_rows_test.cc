// The suite's own rows, by name.
#include "interface/own_rows.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "test_ranks.h"

namespace overlapbench {
namespace {

class OwnRowsTest : public testing::Test {
 protected:
  // The row, or why there is none.
  std::string Found(const std::string& name) const {
    try {
      return rows_.Find(name).name;
    } catch (const UsageError& error) {
      return error.what();
    }
  }

  std::unique_ptr<Device> device_ = OpenHostDevice(1);
  Machine machine_{*device_, TestRanks()};
  OwnRows rows_{machine_};
};

TEST_F(OwnRowsTest, AreFoundByTheirWholeName) {
  for (const char* name : {"Copy/Bandwidth/direction:both/bytes:65536/cache:cold",
                           "Copy/Bandwidth/direction:both/bytes:65536/engine:sm/cache:cold",
                           "Copy/Sequential/elements:1048576/intensity:4/cache:cold"})
    EXPECT_EQ(Found(name), name);
}

TEST_F(OwnRowsTest, MayLeaveAxesOutThatHaveOneValue) {
  EXPECT_EQ(Found("Copy/Sequential"), "Copy/Sequential/elements:1048576/intensity:4/cache:cold");
  EXPECT_EQ(Found("Copy/Sequential/elements:4096"),
            "Copy/Sequential/elements:4096/intensity:4/cache:cold");
  EXPECT_EQ(Found("Comm/HostToDevice"),
            "Comm/HostToDevice matches 2 rows: Comm/HostToDevice/bytes:1048576/cache:cold, "
            "Comm/HostToDevice/bytes:16777216/cache:cold");
  EXPECT_EQ(Found("Compute/Gemm"),
            "Compute/Gemm matches 5 rows: Compute/Gemm/n:256/grid:1x1/work:tile/cache:cold, "
            "Compute/Gemm/n:256/grid:2x2/work:tile/cache:cold, "
            "Compute/Gemm/n:256/grid:4x4/work:tile/cache:cold and 2 more");
  EXPECT_EQ(Found("Copy/Pipelined/intensity:1"),
            "Copy/Pipelined/intensity:1 matches 3 rows: "
            "Copy/Pipelined/elements:1048576/intensity:1/pipeline_streams:1/cache:cold, "
            "Copy/Pipelined/elements:1048576/intensity:1/pipeline_streams:2/cache:cold, "
            "Copy/Pipelined/elements:1048576/intensity:1/pipeline_streams:4/cache:cold");
}

TEST_F(OwnRowsTest, AreMissedWithAReason) {
  EXPECT_EQ(Found("Copy/Sequentiall/elements:4096"),
            "the suite has no rows of 'Copy/Sequentiall'; did you mean Copy/Sequential?");
  EXPECT_EQ(Found("Quux"),
            "the suite has no rows of 'Quux'; ./bench --benchmark_list_tests lists their names");
  EXPECT_EQ(Found("Copy/Sequential/elements"),
            "'elements' is not part of a row's name; write axis:value");
  EXPECT_TRUE(Found("Copy/Sequential/element:4096").starts_with("there is no axis 'element'"));
  EXPECT_EQ(Found("Copy/Fragmented/call:batch"),
            "not available: Copy/Fragmented/bytes:16777216/fragments:1/call:batch/cache:cold: "
            "copies in a batch exist on the cuda backend only")
      << "the first of several";
  if (TestRanks().size() > 1) return;
  EXPECT_TRUE(Found("Comm/AllReduce").starts_with("not available: Comm/AllReduce"));
}

}  // namespace
}  // namespace overlapbench

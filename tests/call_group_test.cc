// Groups of calls, with a library that only notes what it is asked.
#include "comm/call_group.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace overlapbench {
namespace {

constexpr int kResult = 7;

class CallGroupTest : public testing::Test {
 protected:
  // Opens a group, calls what the test gives, and closes the group.
  template <class Calls>
  int Group(const Calls& calls) {
    CallGroup group([this] { asked_ += "start "; },
                    [this] {
                      asked_ += "end ";
                      return kResult;
                    });
    calls();
    return group.Close();
  }

  std::string asked_;
};

TEST_F(CallGroupTest, ClosesOnceAndReturnsTheResult) {
  EXPECT_EQ(Group([this] { asked_ += "call "; }), kResult);
  EXPECT_EQ(asked_, "start call end ");
}

TEST_F(CallGroupTest, ClosesOnceIfACallThrows) {
  EXPECT_THROW(Group([] { throw std::runtime_error("a call failed"); }), std::runtime_error);
  EXPECT_EQ(asked_, "start end ");
}

TEST_F(CallGroupTest, ClosesNothingThatDidNotOpen) {
  const auto end = [this] { asked_ += "end "; };
  EXPECT_THROW(CallGroup([] { throw std::runtime_error("no group"); }, end), std::runtime_error);
  EXPECT_EQ(asked_, "");
}

}  // namespace
}  // namespace overlapbench

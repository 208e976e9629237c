// What the threads that compute expected values may rely on, and that all of them are used.
#include "workload/sample_check.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/forwarding_device.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""s;

constexpr long kRows = 40;
constexpr long kColumns = 30;

// Remembers the threads in which it was made the current device.
class ThreadsDevice : public ForwardingDevice {
 public:
  ThreadsDevice() : ForwardingDevice(OpenHostDevice(1)) {}
  void UseInThisThread() override {
    const std::scoped_lock lock(mutex_);
    threads_.insert(std::this_thread::get_id());
  }
  bool IsUsedHere() {
    const std::scoped_lock lock(mutex_);
    return threads_.contains(std::this_thread::get_id());
  }

 private:
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
};

class SampleCheckTest : public testing::Test {
 protected:
  SampleCheckTest() {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = ValueAt(static_cast<long>(i));
  }
  static float ValueAt(long index) { return static_cast<float>(1 + index % 7); }
  static double Expected(long row, long column) { return ValueAt(row * kColumns + column); }
  Verdict Check(const ExpectedElement& expected, int threads) {
    const MatrixView matrix{values_.data(), Element::kFloat32, kRows, kColumns, kColumns};
    return CheckSample(device_, *stream_, matrix, expected, {}, 10s, {.threads = threads});
  }

  ThreadsDevice device_;
  std::unique_ptr<Stream> stream_ = device_.CreateStream({});
  std::vector<float> values_ = std::vector<float>(kRows * kColumns);
};

TEST(CheckingThreads, AreNoMoreThanCores) {
  Progress progress(0, 1);
  EXPECT_EQ(CheckingThreads(Ranks(RankPlace{}, progress)), 1);
}

TEST_F(SampleCheckTest, EveryOtherThreadUsesTheDevice) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> elsewhere = 0;
  std::atomic<int> without = 0;
  const auto expected = [&](long row, long column) {
    if (std::this_thread::get_id() != caller) {
      ++elsewhere;
      if (!device_.IsUsedHere()) ++without;
    }
    return Expected(row, column);
  };
  EXPECT_EQ(Check(expected, 4).fault, "");
  EXPECT_EQ(elsewhere, kCheckedElements / 4 * 3);
  EXPECT_EQ(without, 0);
}

TEST_F(SampleCheckTest, AWrongElementIsFoundWhicheverThreadHasIt) {
  values_[kColumns - 1] += 1;  // a corner, sample 1
  EXPECT_NE(Check(Expected, 1).fault, "");
  EXPECT_NE(Check(Expected, 4).fault, "");
}

// Its corners are right: the samples between them must not lie on the diagonal.
TEST_F(SampleCheckTest, ATransposedSquareMatrixIsFound) {
  constexpr long kSide = 30;
  const auto at = [](long row, long column) {
    const bool corner = row % (kSide - 1) == 0 && column % (kSide - 1) == 0;
    return corner ? 1 : ValueAt(row * kSide + column);
  };
  for (long i = 0; i < kSide * kSide; ++i) values_[i] = at(i % kSide, i / kSide);
  const MatrixView matrix{values_.data(), Element::kFloat32, kSide, kSide, kSide};
  EXPECT_NE(CheckSample(device_, *stream_, matrix, at, {}, 10s, {.threads = 1}).fault, "");
}

TEST_F(SampleCheckTest, EachCornerIsCompared) {
  for (const long row : {0L, kRows - 1}) {
    for (const long column : {0L, kColumns - 1}) {
      float& corner = values_[row * kColumns + column];
      corner += 1;
      EXPECT_NE(Check(Expected, 1).fault, "") << row << ", " << column;
      corner -= 1;
    }
  }
  EXPECT_EQ(Check(Expected, 1).fault, "");
}

TEST_F(SampleCheckTest, TheLargestErrorIsRelativeToTheSizeAndTheRootMeanSquare) {
  const auto expected = [](long row, long) { return row % 2 == 0 ? 2.0 : -2.0; };
  for (std::size_t i = 0; i < values_.size(); ++i)
    values_[i] = static_cast<float>(expected(static_cast<long>(i) / kColumns, 0));
  values_[0] += 1;
  values_[kColumns - 1] -= 0.5;
  const MatrixView matrix{values_.data(), Element::kFloat32, kRows, kColumns, kColumns};
  const auto check = [&](double tolerance) {
    return CheckSample(device_, *stream_, matrix, expected, {tolerance}, 10s, {.threads = 1});
  };
  EXPECT_DOUBLE_EQ(check(1).max_rel_err, 0.25);
  EXPECT_EQ(check(0.25).fault, "");
  EXPECT_EQ(check(0.24).fault, "relative error 0.25 is above 0.24: element [0,0] is 3, expected 2");
}

TEST_F(SampleCheckTest, TheWorstElementIsNamed) {
  values_[kColumns - 1] += 1;            // [0,29]
  values_[(kRows - 1) * kColumns] += 2;  // [39,0]
  values_[kRows * kColumns - 1] += 1;    // [39,29]
  const MatrixView matrix{values_.data(), Element::kFloat32, kRows, kColumns, kColumns};
  const Verdict verdict =
      CheckSample(device_, *stream_, matrix, Expected, {}, 10s, {.threads = 1, .first_row = 100});
  EXPECT_NE(verdict.fault.find("element [139,0] is "), std::string::npos) << verdict.fault;
  values_[kColumns - 1] += 1;
  EXPECT_NE(Check(Expected, 1).fault.find("element [0,29] is "), std::string::npos)
      << "the first of equal errors";
}

// As values that another program has computed.
TEST_F(SampleCheckTest, ValuesFromElsewhereAreThoseOfTheSampledElements) {
  const MatrixView matrix{values_.data(), Element::kFloat32, kRows, kColumns, kColumns};
  std::vector<double> expected = SampledValues(*stream_, matrix, 10s);
  EXPECT_EQ(std::ssize(expected), kCheckedElements);
  const auto check = [&] { return CheckSample(device_, *stream_, matrix, expected, {0.1}, 10s); };
  EXPECT_EQ(check().fault, "");
  EXPECT_EQ(check().max_rel_err, 0);
  values_[0] = 64;
  const std::string fault = check().fault;
  EXPECT_NE(fault.find("element [0,0] is 64, expected 1"), std::string::npos) << fault;
  values_[1] = std::numeric_limits<float>::quiet_NaN();  // as a poisoned one
  EXPECT_EQ(check().fault, "element [0,1] was not written");
  EXPECT_EQ(check().max_rel_err, 0);
  EXPECT_EQ(Check(Expected, 1).fault, "element [0,1] was not written");
  EXPECT_EQ(Check(Expected, 1).max_rel_err, 0);
}

TEST_F(SampleCheckTest, SamplesAreInAllRowsAndColumns) {
  std::set<long> rows;
  std::set<long> columns;
  const auto expected = [&](long row, long column) {
    rows.insert(row);
    columns.insert(column);
    return Expected(row, column);
  };
  EXPECT_EQ(Check(expected, 1).fault, "");
  EXPECT_EQ(std::ssize(rows), kRows);
  EXPECT_EQ(std::ssize(columns), kColumns);
}

TEST_F(SampleCheckTest, RowsMayLieApart) {
  constexpr long kPart = kColumns / 2;
  const MatrixView part{values_.data(), Element::kFloat32, kRows, kPart, kColumns};
  EXPECT_EQ(CheckSample(device_, *stream_, part, Expected, {}, 10s, {.threads = 1}).fault, "");
  const MatrixView dense{values_.data(), Element::kFloat32, kRows, kPart, kPart};
  EXPECT_NE(CheckSample(device_, *stream_, dense, Expected, {}, 10s, {.threads = 1}).fault, "");
}

TEST_F(SampleCheckTest, WhatAThreadThrowsReachesTheCaller) {
  const std::thread::id caller = std::this_thread::get_id();
  const auto expected = [caller](long row, long column) {
    if (std::this_thread::get_id() != caller) throw std::runtime_error("no such row");
    return Expected(row, column);
  };
  EXPECT_THROW(Check(expected, 2), std::runtime_error);
}

}  // namespace
}  // namespace overlapbench

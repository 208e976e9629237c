// The numbers of calls by mail, and when a half of the mailbox counts as free.
#include "comm/mail_numbers.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <utility>
#include <vector>

namespace overlapbench {
namespace {

struct Told {
  std::uint32_t number = 0;  // the call's first number
  bool by_mail = false;
  std::size_t half = 0;
  std::uint32_t free_at = 0;
};

// Calls by mail among others, which take a number before each phase and one at the end.
std::vector<Told> Draw(unsigned seed, std::uint32_t last, int count) {
  std::mt19937 random(seed);
  MailNumbers numbers;
  std::vector<Told> calls;
  for (int i = 0; i < count; ++i) {
    if (random() % 2 == 0) {
      const std::uint32_t first = last + 1;
      last += 2 + random() % 3;
      calls.push_back({.number = first});
    } else {
      const std::size_t half = numbers.half();
      const MailNumbers::Call call = numbers.Next(last);
      calls.push_back({call.number, true, half, call.free_at});
    }
  }
  return calls;
}

// As the kernels compare them: numbers wrap around.
bool HasCome(std::uint32_t told, std::uint32_t number) {
  return static_cast<std::int32_t>(told - number) >= 0;
}

// A number of another rank's flag frees the half exactly if that rank has begun a later call than
// the one that used the half last.
void ExpectFreeAfterTheLastUse(const std::vector<Told>& calls) {
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::array<std::size_t, kMailHalves> last_use = {kNone, kNone};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].by_mail) continue;
    const std::size_t used = std::exchange(last_use.at(calls[i].half), i);
    if (used == kNone) continue;
    for (std::size_t begun = 0; begun < calls.size(); ++begun)
      EXPECT_EQ(HasCome(calls[begun].number, calls[i].free_at), begun > used) << i << " " << begun;
  }
}

TEST(MailNumbers, FreeAHalfWhenALaterCallThanItsLastHasBegun) {
  for (unsigned seed = 0; seed < 20; ++seed) ExpectFreeAfterTheLastUse(Draw(seed, 0, 60));
}

TEST(MailNumbers, WrapAroundWithoutZero) {
  for (std::uint32_t before = 1; before < 200; before += 7) {
    const auto calls = Draw(before, 0U - before, 60);
    ExpectFreeAfterTheLastUse(calls);
    for (const Told& call : calls) EXPECT_TRUE(!call.by_mail || call.number != 0);
  }
}

TEST(MailNumbers, UseTheHalvesInTurnFreeAtFirst) {
  MailNumbers numbers;
  std::uint32_t last = 0;
  EXPECT_EQ(numbers.half(), 0U);
  EXPECT_EQ(numbers.Next(last).free_at, 0U);
  EXPECT_EQ(numbers.half(), 1U);
  EXPECT_EQ(numbers.Next(last).free_at, 0U);
  EXPECT_EQ(numbers.half(), 0U);
  EXPECT_EQ(numbers.Next(last).free_at, 2U);
  EXPECT_EQ(last, 3U);
}

}  // namespace
}  // namespace overlapbench

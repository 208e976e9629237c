// The queue between producers and a consumer: nothing is lost or made twice, no slot is used by
// two, and nobody waits for ever.
#include "comm/batch_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "device/error.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr auto kPatience = 20'000ms;
// Long enough for somebody who should wait to have gone on.
constexpr auto kAWhile = 30ms;

// What `action` throws, as text.
std::string ErrorOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A ticket where one must be left.
BatchQueue::Batch Ticket(BatchQueue& queue) {
  const auto ticket = queue.TakeTicket();
  if (!ticket) throw Error("no ticket is left");
  return *ticket;
}

TEST(BatchQueue, GivesTicketsInOrderAndNoneAfterTheLast) {
  BatchQueue queue(3, 3, kPatience);
  std::vector<int> slots;
  for (long index = 0; index < 3; ++index) {
    const auto ticket = Ticket(queue);
    EXPECT_EQ(ticket.index, index);
    slots.push_back(ticket.slot);
  }
  std::ranges::sort(slots);
  EXPECT_EQ(slots, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(queue.TakeTicket().has_value());
  EXPECT_FALSE(queue.TakeTicket().has_value());
}

TEST(BatchQueue, HandsOutWhatIsReadyFirst) {
  BatchQueue queue(2, 2, kPatience);
  const auto first = Ticket(queue);
  const auto second = Ticket(queue);
  queue.Put(second);
  queue.Put(first);
  EXPECT_EQ(queue.Take().index, 1);
  EXPECT_EQ(queue.Take().index, 0);
}

// The value of a batch goes through its slot, as the data does.
TEST(BatchQueue, BringsEveryBatchOnceAndWholeFromManyThreads) {
  constexpr long kBatches = 2000;
  constexpr int kSlots = 3;
  constexpr int kWorkers = 8;
  BatchQueue queue(kBatches, kSlots, kPatience);
  std::vector<long> slots(kSlots, -1);
  std::atomic<int> filled = 0;
  std::atomic<int> most_filled = 0;
  std::vector<std::jthread> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&] {
      while (const auto ticket = queue.TakeTicket()) {
        const int now = ++filled;
        if (now > most_filled) most_filled = now;
        slots[ticket->slot] = ticket->index;
        queue.Put(*ticket);
      }
    });
  }
  std::vector<long> brought;
  for (long i = 0; i < kBatches; ++i) {
    const auto batch = queue.Take();
    EXPECT_EQ(slots[batch.slot], batch.index);
    brought.push_back(batch.index);
    --filled;
    queue.Release(batch);
  }
  workers.clear();
  std::ranges::sort(brought);
  std::vector<long> all(kBatches);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(brought, all);
  EXPECT_LE(most_filled, kSlots);
}

TEST(BatchQueue, LetsNobodyAheadOfItsSlots) {
  BatchQueue queue(10, 2, kPatience);
  std::atomic<int> made = 0;
  std::jthread worker([&] {
    while (const auto ticket = queue.TakeTicket()) {
      ++made;
      queue.Put(*ticket);
    }
  });
  for (int released = 0; released < 8; ++released) {
    const auto batch = queue.Take();
    std::this_thread::sleep_for(kAWhile / 10);
    EXPECT_LE(made, 2 + released);
    queue.Release(batch);
  }
  worker.join();
  EXPECT_EQ(made, 10);
}

TEST(BatchQueue, SaysWhatDidNotComeInTime) {
  BatchQueue queue(2, 1, kAWhile);
  EXPECT_EQ(ErrorOf([&] { queue.Take(); }), "a batch from the producers did not come within 30 ms");
  queue.TakeTicket();
  EXPECT_EQ(ErrorOf([&] { queue.TakeTicket(); }),
            "a free slot for a batch did not come within 30 ms");
}

TEST(BatchQueue, EndsEverybodysWaitingForTheFirstReason) {
  BatchQueue no_slots(10, 0, kPatience);
  std::vector<std::string> errors(6);
  std::vector<std::jthread> waiting;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    waiting.emplace_back([&, i] {
      errors[i] = ErrorOf([&] {
        if (i % 2 == 0)
          no_slots.TakeTicket();
        else
          no_slots.Take();
      });
    });
  }
  std::this_thread::sleep_for(kAWhile);  // so that most of them do wait
  const auto before = std::chrono::steady_clock::now();
  no_slots.Close("the disk is full");
  no_slots.Close("the consumer has gone");
  waiting.clear();
  EXPECT_LT(std::chrono::steady_clock::now() - before, kPatience / 2);
  EXPECT_EQ(errors, std::vector<std::string>(6, "the disk is full"));
}

// Whoever comes later fails as well, even if there was something for it.
TEST(BatchQueue, StaysClosed) {
  BatchQueue queue(3, 2, kPatience);
  queue.Put(Ticket(queue));
  queue.Close("the disk is full");
  EXPECT_EQ(ErrorOf([&] { queue.TakeTicket(); }), "the disk is full");
  EXPECT_EQ(ErrorOf([&] { queue.Take(); }), "the disk is full");
}

}  // namespace
}  // namespace overlapbench

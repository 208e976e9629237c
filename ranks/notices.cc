#include "ranks/notices.h"

#include <algorithm>

namespace overlapbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTag = 2;  // ranks.cc uses another
constexpr std::chrono::milliseconds kSendingPatience(100);
constexpr std::chrono::milliseconds kBetweenLooks(1);

}  // namespace

Notices::Notices(MPI_Comm comm) : comm_(comm) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
}

void Notices::SendEnding(const std::string& text) {
  Message message;
  std::copy_n(text.begin(), std::min(text.size(), kTextBytes - 1), message.text.begin());
  Send(message);
}

void Notices::SendFailure(std::int64_t step) { Send({step, {}}); }

// Short messages leave at once. Testing their requests drives them.
void Notices::Send(const Message& message) {
  const std::lock_guard lock(sending_);
  std::erase_if(sent_, Done);
  Sent& sent = sent_.emplace_back(message);
  for (int to = 0; to < size_; ++to) {
    if (to == rank_) continue;
    MPI_Isend(&sent.message, sizeof(Message), MPI_BYTE, to, kTag, comm_,
              &sent.requests.emplace_back(MPI_REQUEST_NULL));
  }
  const auto deadline = Clock::now() + kSendingPatience;
  while (!Done(sent) && Clock::now() < deadline) {
  }
}

// A request that has failed counts as done, since there is nobody to tell.
bool Notices::Done(Sent& sent) {
  int done = 0;
  const int code = MPI_Testall(static_cast<int>(sent.requests.size()), sent.requests.data(), &done,
                               MPI_STATUSES_IGNORE);
  return done != 0 || code != MPI_SUCCESS;
}

bool Notices::Receive() {
  const auto now = Clock::now();
  if (now < next_look_.load()) return has_ending_;
  next_look_ = now + kBetweenLooks;
  while (ReceiveOne()) {
  }
  return has_ending_;
}

// The matched probe keeps other threads from receiving the same message.
bool Notices::ReceiveOne() {
  int there = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  if (MPI_Improbe(MPI_ANY_SOURCE, kTag, comm_, &there, &handle, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
      there == 0) {
    return false;
  }
  Message message;
  if (MPI_Mrecv(&message, sizeof(message), MPI_BYTE, &handle, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (message.step != kEnding) {
    failed_step_ = std::max(failed_step_.load(), message.step);
  } else if (ending_.empty()) {
    ending_ = message.text.data();
    has_ending_ = true;
  }
  return true;
}

std::string Notices::ending() const {
  const std::lock_guard lock(mutex_);
  return ending_;
}

}  // namespace overlapbench

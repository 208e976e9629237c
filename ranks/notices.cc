#include "ranks/notices.h"

#include <algorithm>

#include "device/text.h"

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
  questions_.assign(size_, kNone);
  answered_.assign(size_, kNone);
}

std::string Notices::Cut(const std::string& text) { return WithinBytes(text, kTextBytes - 1); }

void Notices::SendEnding(const std::string& text) {
  Message message;
  std::ranges::copy(Cut(text), message.text.begin());
  SendToOthers(message);
}

void Notices::SendFailure(std::int64_t step) { SendToOthers({Kind::kFailure, step, {}}); }

void Notices::Ask(std::int64_t number) { SendToOthers({Kind::kQuestion, number, {}}); }

void Notices::AnswerQuestions() {
  if (!has_questions_.exchange(false)) return;
  std::vector<std::int64_t> questions(size_, kNone);
  {
    const std::lock_guard lock(mutex_);
    questions.swap(questions_);
  }
  for (int from = 0; from < size_; ++from) {
    if (questions[from] != kNone) Send({Kind::kAnswer, questions[from], {}}, {from});
  }
}

std::vector<int> Notices::Silent(std::int64_t number) const {
  const std::lock_guard lock(mutex_);
  std::vector<int> silent;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && answered_[rank] != number) silent.push_back(rank);
  }
  return silent;
}

void Notices::SendToOthers(const Message& message) {
  std::vector<int> others;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) others.push_back(rank);
  }
  Send(message, others);
}

// MPI sends short messages eagerly. Testing their requests drives their progress.
void Notices::Send(const Message& message, const std::vector<int>& receivers) {
  const std::lock_guard lock(sending_);
  std::erase_if(sent_, Done);
  Sent& sent = sent_.emplace_back(message);
  for (const int to : receivers) {
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
  MPI_Status status;
  if (MPI_Improbe(MPI_ANY_SOURCE, kTag, comm_, &there, &handle, &status) != MPI_SUCCESS ||
      there == 0) {
    return false;
  }
  Message message;
  if (MPI_Mrecv(&message, sizeof(message), MPI_BYTE, &handle, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
    return false;
  }
  Note(message, status.MPI_SOURCE);
  return true;
}

void Notices::Note(const Message& message, int sender) {
  const std::lock_guard lock(mutex_);
  switch (message.kind) {
    case Kind::kEnding:
      if (ending_.empty()) ending_ = message.text.data();
      has_ending_ = true;
      return;
    case Kind::kFailure:
      failed_step_ = std::max(failed_step_.load(), message.number);
      return;
    case Kind::kQuestion:
      if (message.number == kRollCall) return Send({Kind::kAnswer, kRollCall, {}}, {sender});
      questions_[sender] = message.number;
      has_questions_ = true;
      return;
    case Kind::kAnswer:
      answered_[sender] = message.number;
      return;
  }
}

std::string Notices::ending() const {
  const std::lock_guard lock(mutex_);
  return ending_;
}

}  // namespace overlapbench

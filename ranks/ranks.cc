#include "ranks/ranks.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "ranks/clock.h"

namespace overlapbench {
namespace {

// Of messages to rank 0 from ranks that end; clock.cc has another.
constexpr int kLastWordsTag = 2;
constexpr std::chrono::milliseconds kLastWordsPatience(100);

}  // namespace

void ThrowIfMpiFailed(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(std::string(call) + " failed: " + text.data());
}

Ranks::Ranks(std::chrono::milliseconds timeout, Progress& progress)
    : timeout_(timeout), progress_(progress) {
  const Progress::Scope scope(progress_, Phase::kStart);
  // Streams of the host backend call MPI from threads of their own.
  int provided = 0;
  MPI_CHECK(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
  if (provided < MPI_THREAD_MULTIPLE) {
    throw Error("MPI_Init_thread: this MPI library offers no MPI_THREAD_MULTIPLE");
  }
  // Errors of requests are the world's, and would end the process before it can keep its rows.
  MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &control_));
  MPI_CHECK(MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN));
  MPI_CHECK(MPI_Comm_rank(control_, &rank_));
  MPI_CHECK(MPI_Comm_size(control_, &size_));
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split_type(control_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine));
  MPI_CHECK(MPI_Comm_rank(machine, &local_rank_));
  MPI_CHECK(MPI_Comm_size(machine, &local_size_));
  MeasureClockOffset(machine);
  MPI_CHECK(MPI_Comm_free(&machine));
}

Ranks::~Ranks() {
  const Progress::Scope scope(progress_, Phase::kEnd);
  MPI_Comm_free(&control_);
  MPI_Finalize();
}

std::string Ranks::LibraryVersion() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string whole = text.data();
  return whole.substr(0, whole.find(','));
}

std::string Ranks::HostName() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string Ranks::Prefix() const {
  return size_ > 1 ? "rank " + std::to_string(rank_) + ": " : "";
}

void Ranks::Await(MPI_Request& request, const std::string& what) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  for (int done = 0;;) {
    MPI_CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done != 0) return;
    if (std::chrono::steady_clock::now() > deadline) {
      throw FatalError(Prefix() + what + ": the other ranks did not come within " +
                       std::to_string(timeout_.count()) +
                       " ms; one of them has stopped or is doing something else");
    }
    sched_yield();
  }
}

void Ranks::Barrier(const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Ibarrier(control_, &request));
  Await(request, what);
}

void Ranks::Max(std::span<double> values, const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE,
                           MPI_MAX, control_, &request));
  Await(request, what);
}

std::vector<std::string> Ranks::Gather(const std::string& text, const std::string& what) {
  std::vector<char> sent(kTextBytes, '\0');
  std::copy_n(text.begin(), std::min(text.size(), kTextBytes - 1), sent.begin());
  std::vector<char> received(kTextBytes * size_);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallgather(sent.data(), kTextBytes, MPI_CHAR, received.data(), kTextBytes, MPI_CHAR,
                           control_, &request));
  Await(request, what);
  std::vector<std::string> texts;
  for (int rank = 0; rank < size_; ++rank) texts.emplace_back(&received[rank * kTextBytes]);
  return texts;
}

std::vector<double> Ranks::GatherNumbers(std::span<const double> numbers, const std::string& what) {
  const int count = static_cast<int>(numbers.size());
  std::vector<double> received(numbers.size() * size_);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallgather(numbers.data(), count, MPI_DOUBLE, received.data(), count, MPI_DOUBLE,
                           control_, &request));
  Await(request, what);
  return received;
}

std::vector<std::string> Ranks::GatherIfAny(const std::string& text, const std::string& what) {
  double any = text.empty() ? 0 : 1;
  Max({&any, 1}, what);
  return any > 0 ? Gather(text, what) : std::vector<std::string>();
}

void Ranks::Broadcast(std::span<std::byte> bytes, const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(
      MPI_Ibcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, control_, &request));
  Await(request, what);
}

void Ranks::AgreeOnError(const std::string& local_error, const std::string& what) {
  const auto errors = GatherIfAny(local_error, what);
  if (errors.empty()) return;
  const auto first =
      std::find_if(errors.begin(), errors.end(), [](const auto& e) { return !e.empty(); });
  const bool alone = std::count(errors.begin(), errors.end(), *first) != size_;
  const auto rank = first - errors.begin();
  throw AgreedError((alone ? "rank " + std::to_string(rank) + ": " : "") + *first);
}

void Ranks::AgreeOnEntry(const std::string& benchmark, std::int64_t iterations) {
  std::string mine = benchmark + " (" + std::to_string(iterations) + " iterations)";
  mine.resize(std::min(mine.size(), kTextBytes - 1));
  const std::string what = "agreeing on the next benchmark, " + mine;
  std::array<char, kTextBytes> roots{};
  std::ranges::copy(mine, roots.begin());
  Broadcast(std::as_writable_bytes(std::span(roots)), what);
  const auto others = GatherIfAny(mine == roots.data() ? "" : mine, what);
  const auto other = std::ranges::find_if(others, [](const auto& text) { return !text.empty(); });
  if (other == others.end()) return;
  throw FatalError("the ranks are not doing the same: rank 0 is at " + std::string(roots.data()) +
                       ", rank " + std::to_string(other - others.begin()) + " at " + *other +
                       "; start all ranks with the same flags and environment",
                   FatalError::kKnownToAll);
}

// Short messages are under way at once; the tests push them.
void Ranks::TellRoot(const std::string& reason) {
  if (is_root()) return;
  last_words_ = reason.substr(0, kTextBytes - 1);
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Isend(last_words_.data(), static_cast<int>(last_words_.size()), MPI_CHAR, 0,
                kLastWordsTag, control_, &request) != MPI_SUCCESS) {
    return;
  }
  const auto deadline = std::chrono::steady_clock::now() + kLastWordsPatience;
  for (int done = 0; done == 0 && std::chrono::steady_clock::now() < deadline;) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
  }
}

std::string Ranks::LastWords() const {
  const auto deadline = std::chrono::steady_clock::now() + kLastWordsPatience;
  int there = 0;
  MPI_Status status{};
  while (there == 0) {
    if (size_ == 1 || std::chrono::steady_clock::now() > deadline) return "";
    if (MPI_Iprobe(MPI_ANY_SOURCE, kLastWordsTag, control_, &there, &status) != MPI_SUCCESS) {
      return "";
    }
  }
  std::array<char, kTextBytes> text{};
  if (MPI_Recv(text.data(), kTextBytes - 1, MPI_CHAR, status.MPI_SOURCE, kLastWordsTag, control_,
               MPI_STATUS_IGNORE) != MPI_SUCCESS) {
    return "";
  }
  return text.data();
}

double Ranks::CommonClockMs() const { return NowMs() + clock_offset_ms_; }

// The ranks of a machine have one clock, which its first rank compares with rank 0's.
void Ranks::MeasureClockOffset(MPI_Comm machine) {
  MPI_Comm first_ranks = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split(control_, local_rank_ == 0 ? 0 : MPI_UNDEFINED, rank_, &first_ranks));
  if (first_ranks != MPI_COMM_NULL) {
    clock_offset_ms_ = ClockOffsetMs(*this, first_ranks, NowMs);
    MPI_CHECK(MPI_Comm_free(&first_ranks));
  }
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Ibcast(&clock_offset_ms_, 1, MPI_DOUBLE, 0, machine, &request));
  Await(request, "starting: telling the machine's clock");
}

void Ranks::Add(Link& link) {
  const std::lock_guard lock(links_mutex_);
  links_.push_back(&link);
}

void Ranks::Remove(Link& link) {
  const std::lock_guard lock(links_mutex_);
  std::erase(links_, &link);
}

void Ranks::CheckLinks() const {
  const std::lock_guard lock(links_mutex_);
  for (Link* link : links_) {
    const std::string fault = link->Fault();
    if (!fault.empty()) throw FatalError(Prefix() + fault);
  }
}

void Ranks::AbortLinks() {
  const std::lock_guard lock(links_mutex_);
  for (Link* link : links_) link->Abort();
}

}  // namespace overlapbench

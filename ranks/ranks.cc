#include "ranks/ranks.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace overlapbench {
namespace {

double NowMs() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void ThrowIfMpiFailed(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(std::string(call) + " failed: " + text.data());
}

Ranks::Ranks(std::chrono::milliseconds timeout) : timeout_(timeout) {
  // Streams of the host backend call MPI from threads of their own.
  int provided = 0;
  MPI_CHECK(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
  if (provided < MPI_THREAD_MULTIPLE) {
    throw Error("MPI_Init_thread: this MPI library offers no MPI_THREAD_MULTIPLE");
  }
  MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &control_));
  MPI_CHECK(MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN));
  MPI_CHECK(MPI_Comm_rank(control_, &rank_));
  MPI_CHECK(MPI_Comm_size(control_, &size_));
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split_type(control_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine));
  MPI_CHECK(MPI_Comm_rank(machine, &local_rank_));
  MPI_CHECK(MPI_Comm_size(machine, &local_size_));
  MPI_CHECK(MPI_Comm_free(&machine));
  MeasureClockOffset();
}

Ranks::~Ranks() {
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

void Ranks::Broadcast(std::span<std::byte> bytes, const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(
      MPI_Ibcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, control_, &request));
  Await(request, what);
}

void Ranks::AgreeOnError(const std::string& local_error, const std::string& what) {
  double failed = local_error.empty() ? 0 : 1;
  Max({&failed, 1}, what);
  if (failed == 0) return;
  const auto errors = Gather(local_error, what);
  const auto first =
      std::find_if(errors.begin(), errors.end(), [](const auto& e) { return !e.empty(); });
  const bool alone = std::count(errors.begin(), errors.end(), *first) != size_;
  const auto rank = first - errors.begin();
  throw Error((alone ? "rank " + std::to_string(rank) + ": " : "") + *first);
}

void Ranks::AgreeOnEntry(const std::string& benchmark, std::int64_t iterations) {
  const std::string mine = benchmark + " (" + std::to_string(iterations) + " iterations)";
  const auto entries = Gather(mine, "agreeing on the next benchmark, " + mine);
  for (int rank = 1; rank < size_; ++rank) {
    if (entries[rank] == entries[0]) continue;
    throw FatalError("the ranks are not doing the same: rank 0 is at " + entries[0] + ", rank " +
                         std::to_string(rank) + " at " + entries[rank] +
                         "; start all ranks with the same flags and environment",
                     FatalError::kKnownToAll);
  }
}

double Ranks::CommonClockMs() const { return NowMs() + clock_offset_ms_; }

// Rank 0 answers each rank's question "what time is it?"; the quickest of several exchanges is the
// most exact (F. Cristian, Probabilistic clock synchronization, 1989). On one machine the offset is
// near 0.
void Ranks::MeasureClockOffset() {
  constexpr int kExchanges = 20;
  constexpr int kTag = 1;
  for (int peer = 1; peer < size_; ++peer) {
    double quickest_ms = 1e30;
    for (int i = 0; i < kExchanges; ++i) {
      double time_ms = 0;
      MPI_Request request = MPI_REQUEST_NULL;
      if (rank_ == 0) {
        MPI_CHECK(MPI_Irecv(&time_ms, 1, MPI_DOUBLE, peer, kTag, control_, &request));
        Await(request, "starting: comparing clocks");
        time_ms = NowMs();
        MPI_CHECK(MPI_Isend(&time_ms, 1, MPI_DOUBLE, peer, kTag, control_, &request));
        Await(request, "starting: comparing clocks");
      } else if (rank_ == peer) {
        const double asked_ms = NowMs();
        MPI_CHECK(MPI_Isend(&asked_ms, 1, MPI_DOUBLE, 0, kTag, control_, &request));
        Await(request, "starting: comparing clocks");
        MPI_CHECK(MPI_Irecv(&time_ms, 1, MPI_DOUBLE, 0, kTag, control_, &request));
        Await(request, "starting: comparing clocks");
        const double answered_ms = NowMs();
        if (answered_ms - asked_ms < quickest_ms) {
          quickest_ms = answered_ms - asked_ms;
          clock_offset_ms_ = time_ms - (asked_ms + answered_ms) / 2;
        }
      }
    }
  }
}

void Ranks::Abort(int status) const {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace overlapbench

#include "ranks/clock.h"

#include <chrono>

namespace overlapbench {
namespace {

constexpr int kExchanges = 20;
constexpr int kTag = 1;

void Exchange(const Ranks& ranks, MPI_Comm comm, int peer, double* time_ms, bool sends) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(sends ? MPI_Isend(time_ms, 1, MPI_DOUBLE, peer, kTag, comm, &request)
                  : MPI_Irecv(time_ms, 1, MPI_DOUBLE, peer, kTag, comm, &request));
  ranks.Await(request, "starting: comparing clocks");
}

void Answer(const Ranks& ranks, MPI_Comm comm, int peer, const std::function<double()>& now_ms) {
  for (int i = 0; i < kExchanges; ++i) {
    double time_ms = 0;
    Exchange(ranks, comm, peer, &time_ms, false);
    time_ms = now_ms();
    Exchange(ranks, comm, peer, &time_ms, true);
  }
}

double Ask(const Ranks& ranks, MPI_Comm comm, const std::function<double()>& now_ms) {
  double quickest_ms = 1e30;
  double offset_ms = 0;
  for (int i = 0; i < kExchanges; ++i) {
    const double asked_ms = now_ms();
    double time_ms = asked_ms;
    Exchange(ranks, comm, 0, &time_ms, true);
    Exchange(ranks, comm, 0, &time_ms, false);
    const double answered_ms = now_ms();
    if (answered_ms - asked_ms >= quickest_ms) continue;
    quickest_ms = answered_ms - asked_ms;
    offset_ms = time_ms - (asked_ms + answered_ms) / 2;
  }
  return offset_ms;
}

}  // namespace

double NowMs() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double ClockOffsetMs(const Ranks& ranks, MPI_Comm comm, const std::function<double()>& now_ms) {
  int own = 0;
  int size = 1;
  MPI_CHECK(MPI_Comm_rank(comm, &own));
  MPI_CHECK(MPI_Comm_size(comm, &size));
  if (own > 0) return Ask(ranks, comm, now_ms);
  for (int peer = 1; peer < size; ++peer) Answer(ranks, comm, peer, now_ms);
  return 0;
}

}  // namespace overlapbench

// Notices: short messages by which a rank informs all others of an error, without waiting for them.
//
// A rank that has failed cannot report it by a collective call: that needs every rank, and the
// others may be waiting in something else. Instead it sends each of them a notice, and ranks check
// for notices whenever they wait. There are two kinds:
//
// - `ending`: the sender ends the job, and why. It has already printed the text.
// - `failure`: the sender has failed in a step that all ranks take, and is about to agree on the
//   error (Ranks::AgreeOnError). Steps are numbered, so that a late notice is not mistaken for a
//   new one.
//
// Sending and receiving never wait for another rank. Any thread may do either.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

namespace overlapbench {

class Notices {
 public:
  // Longer texts are cut. Only short messages are sent at once, without asking the receiver.
  static constexpr std::size_t kTextBytes = 480;

  // Sends over `comm`, which it does not own.
  explicit Notices(MPI_Comm comm);

  // Never throws, and takes at most a tenth of a second.
  void SendEnding(const std::string& text);
  void SendFailure(std::int64_t step);

  // Receives what has arrived. Returns true once another rank ends the job. It looks at most once a
  // millisecond, so that it does not lengthen measured waits.
  bool Receive();
  // The first reason received for ending the job; "" if there is none.
  [[nodiscard]] std::string ending() const;
  // The latest step in which another rank has failed; -1 if there is none.
  [[nodiscard]] std::int64_t failed_step() const { return failed_step_; }

 private:
  static constexpr std::int64_t kEnding = -1;  // instead of a step
  struct Message {
    std::int64_t step = kEnding;
    std::array<char, kTextBytes> text{};
  };
  // MPI reads the message until its requests are complete.
  struct Sent {
    Message message;
    std::vector<MPI_Request> requests;
  };

  void Send(const Message& message);
  static bool Done(Sent& sent);
  bool ReceiveOne();

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::mutex sending_;
  std::list<Sent> sent_;
  mutable std::mutex mutex_;  // guards ending_
  std::string ending_;
  std::atomic<bool> has_ending_ = false;
  std::atomic<std::int64_t> failed_step_ = -1;
  std::atomic<std::chrono::steady_clock::time_point> next_look_{};
};

}  // namespace overlapbench

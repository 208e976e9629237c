// Notices: short messages between ranks about errors and missing ranks. They wait for nobody.
//
// A rank that has failed cannot report it by a collective call: that needs every rank, and the
// others may be waiting in another call. Instead it sends each of them a notice, and ranks check
// for notices whenever they wait. The kinds are:
//
// - `ending`: the sender ends the job; the text says why. It has already printed the text.
// - `failure`: the sender has failed in a step that all ranks take, and is about to agree on the
//   error (Ranks::AgreeOnError). Steps are numbered, so that a late notice is not mistaken for a
//   new one.
// - `question` and `answer`: a rank that waits long in a collective call asks which others wait in
//   one. Those that do not answer are missing. An answer carries its question's number, so that it
//   is not mistaken for the answer to a later one. The roll call is a question that every rank
//   answers, whatever it does, as soon as it receives it: those that do not answer are gone.
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
  // Longer texts are cut (Cut). MPI sends only short messages eagerly, without a handshake with the
  // receiver.
  static constexpr std::size_t kTextBytes = 480;
  // The beginning of `text` that fits with a zero behind it (device/text.h).
  static std::string Cut(const std::string& text);

  // Sends over `comm`, which it does not own.
  explicit Notices(MPI_Comm comm);

  static constexpr std::int64_t kRollCall = -2;  // this question's number

  // Never throws, and takes at most a tenth of a second.
  void SendEnding(const std::string& text);
  void SendFailure(std::int64_t step);
  // Asks all others whether they also wait. Each question needs a unique number.
  void Ask(std::int64_t number);
  // Answers the questions that have been received. A waiting rank calls it repeatedly.
  void AnswerQuestions();

  // Receives what has arrived. Returns true once another rank ends the job. It polls at most once
  // per millisecond, so that it does not lengthen measured waits.
  bool Receive();
  // The first reason received for ending the job; "" if there is none.
  [[nodiscard]] std::string ending() const;
  // The latest step in which another rank has failed; -1 if there is none.
  [[nodiscard]] std::int64_t failed_step() const { return failed_step_; }
  // The other ranks that have not answered this question.
  [[nodiscard]] std::vector<int> Silent(std::int64_t number) const;

 private:
  enum class Kind : std::int64_t { kEnding, kFailure, kQuestion, kAnswer };
  struct Message {
    Kind kind = Kind::kEnding;
    std::int64_t number = 0;  // of the step or the question
    std::array<char, kTextBytes> text{};
  };
  static constexpr std::int64_t kNone = -1;  // no number
  // MPI reads the message until its requests are complete.
  struct Sent {
    Message message;
    std::vector<MPI_Request> requests;
  };

  void SendToOthers(const Message& message);
  void Send(const Message& message, const std::vector<int>& receivers);
  void Note(const Message& message, int sender);
  static bool Done(Sent& sent);
  bool ReceiveOne();

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::mutex sending_;
  std::list<Sent> sent_;
  mutable std::mutex mutex_;  // guards what has been received
  std::string ending_;
  std::vector<std::int64_t> questions_;  // by rank, the number of its unanswered question; or kNone
  std::vector<std::int64_t> answered_;  // by rank, the number of the last question that it answered
  std::atomic<bool> has_questions_ = false;
  std::atomic<bool> has_ending_ = false;
  std::atomic<std::int64_t> failed_step_ = kNone;
  std::atomic<std::chrono::steady_clock::time_point> next_look_{};
};

}  // namespace overlapbench

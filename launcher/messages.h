// Messages: what mpirun says about a job, as one line each, with the likely remedy.
//
// OpenMPI 4.1 frames its messages with lines of dashes, of 5 to 30 lines each, several for one
// mistake. Other messages are single lines that begin with "[host:process]" or "***". A table says
// what each known one means. The texts are those of OpenMPI 4.1.4 and 4.1.6.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace overlapbench {

// How much a message says about why the job ended.
enum class Weight : unsigned char {
  kNone,   // it follows from another: never shown
  kHint,   // shown if there is nothing better
  kCause,  // shown
  kDeath,  // a rank was killed: shown whatever else was said
};

struct Message {
  Weight weight = Weight::kNone;
  std::string line;  // without a full stop, and without the name of a program before it
};

// The meaning of a framed message; nullopt if it is not known.
std::optional<Message> Understand(const std::string& framed);

// The meaning of a line without a frame; nullopt if it is not OpenMPI's, or not known.
std::optional<Message> UnderstandLine(const std::string& line);

// What the ranks themselves have said about the end.
enum class Told : unsigned char { kNothing, kSignal, kReason };

// The line that names the cause of a job's end: the first of the weightiest messages. "" if there
// is nothing to add to what the ranks `told`. `status` is mpirun's.
std::string CauseOf(const std::vector<Message>& messages, int status, Told told);

// "SIGKILL (out of memory, or kill -9)".
std::string NameSignal(int signal);

}  // namespace overlapbench

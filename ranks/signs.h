// Signs: what the ranks tell this suite's launcher (launcher/), which knows mpirun only from
// outside.
//
// A sign is a short text on stderr that the launcher recognizes and takes out. So it reaches the
// launcher from every machine, through mpirun. Without that launcher, ranks give no signs.
#pragma once

#include <array>
#include <string>

namespace overlapbench {

enum class Sign : unsigned char {
  kStarted,    // MPI has started on this rank
  kEnded,      // this rank ends on purpose, and whatever there was to say has been said
  kSignalled,  // this rank ends because of a signal, and rank 0 has said so
};

// The texts of the signs, in their order. They begin with a byte that no other output contains.
inline constexpr std::array<const char*, 3> kSigns = {
    "\x1e"
    "started\n",
    "\x1e"
    "ended\n",
    "\x1e"
    "signalled\n"};

// Set in the environment of ranks whose launcher looks for signs.
inline constexpr const char* kSignsVariable = "OVERLAPBENCH_SIGNS";

// The text of the sign; "" if no launcher looks for it.
std::string TextOf(Sign sign);
// Gives the sign, if a launcher looks for it.
void Give(Sign sign);

}  // namespace overlapbench

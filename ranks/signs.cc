#include "ranks/signs.h"

#include <unistd.h>

#include <cstdlib>

namespace overlapbench {

std::string TextOf(Sign sign) {
  return std::getenv(kSignsVariable) == nullptr ? "" : kSigns[static_cast<unsigned char>(sign)];
}

// One call, so that nothing comes between.
void Give(Sign sign) {
  const std::string text = TextOf(sign);
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // there is no one to tell
}

}  // namespace overlapbench

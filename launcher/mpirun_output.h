// MpirunOutput: separates what mpirun itself says on stderr from what the ranks say there.
//
// The ranks' output is passed on at once, unchanged, also within a line: it may be a progress line.
// Held back are frames of dashes and lines that may be OpenMPI's (messages.h), until they are
// complete. Known ones are kept as messages and not shown, unknown ones are shown as they are.
// Signs of the ranks (ranks/signs.h) are taken out.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/messages.h"
#include "ranks/signs.h"

namespace overlapbench {

class MpirunOutput {
 public:
  // Takes what has arrived, and returns what is to be shown.
  std::string Take(std::string_view bytes);
  // Returns what is held back, for the end, or if the rest does not come.
  std::string Flush();
  [[nodiscard]] bool IsHolding() const { return !held_.empty(); }

  [[nodiscard]] bool Has(Sign sign) const { return seen_[static_cast<unsigned char>(sign)]; }
  [[nodiscard]] const std::vector<Message>& messages() const { return messages_; }

 private:
  void TakeSigns();
  // Takes the first frame or line of held_, or a part of it, and appends to `shown`. Returns false
  // if more must come first.
  bool TakeNext(std::string& shown);
  bool TakeFrame(std::string& shown);
  bool TakeLine(std::string& shown);

  std::string held_;
  bool at_line_start_ = true;  // of held_
  std::array<bool, kSigns.size()> seen_{};
  std::vector<Message> messages_;
};

}  // namespace overlapbench

// Thrown: what an action throws, as a text to compare.
#pragma once

#include <string>

namespace overlapbench {

// The text of the exception of this type that `action` throws, or "nothing". Others pass.
template <class Exception, class Action>
std::string Thrown(const Action& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace overlapbench

#include "ranks/end_job.h"

#include <chrono>
#include <string>
#include <thread>

namespace overlapbench {
namespace {

// How long rank 0 may take to show an error that all ranks know of.
constexpr std::chrono::seconds kTimeToSpeak(2);

}  // namespace

void EndJob(Watchdog& watchdog, const Progress& progress, Ranks* ranks,
            const std::exception& error) {
  const auto* fatal = dynamic_cast<const FatalError*>(&error);
  const bool known_to_all = fatal != nullptr && fatal->known_to_all();
  const bool is_root = progress.rank() == 0;
  // Ending ends rank 0 too, which may not have said yet what happened.
  if (known_to_all && !is_root) std::this_thread::sleep_for(kTimeToSpeak);
  const std::string where = known_to_all ? "" : " [" + progress.Where() + "]";
  const std::string reason = error.what() + where;
  if (ranks != nullptr && !known_to_all) ranks->TellRoot(reason);
  watchdog.End(kFailed, reason, !known_to_all || is_root);
}

}  // namespace overlapbench

// ScheduleJson: the schedules of a row as JSON, in the format that docs/prediction.md describes.
// kScheduleVersion is that of the format: readers refuse others.
#pragma once

#include <string>

#include "fixtures/schedule_record.h"

namespace overlapbench {

inline constexpr int kScheduleVersion = 1;

std::string ScheduleJson(const ScheduleRecord& record);

}  // namespace overlapbench

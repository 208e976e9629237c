// Cases of CopyShareFixture: a kernel that is bound by memory, its first reference a DeviceCopy
// that reads and writes as much as the kernel must.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/plan.h"

namespace overlapbench {

// The size of one element, by the axis `precision`.
long ElementBytes(const Settings& settings);

// `copied_bytes` says how many bytes the copy takes at the case's settings: half of what the kernel
// must read and write. A copy takes whole words, and at least one, so they are rounded up. `others`
// are further references, at the case's own settings.
Case AgainstCopy(const char* workload, std::map<std::string, std::string> values, const char* title,
                 const std::function<long(const Settings&)>& copied_bytes,
                 const std::vector<std::string>& others = {});

}  // namespace overlapbench

#include "benchmarks/against_copy.h"

#include <algorithm>
#include <utility>

#include "workload/element.h"

namespace overlapbench {

long ElementBytes(const Settings& settings) {
  return static_cast<long>(SizeOf(ElementNamed(settings.Text("precision"))));
}

Case AgainstCopy(const char* workload, std::map<std::string, std::string> values, const char* title,
                 const std::function<long(const Settings&)>& copied_bytes,
                 const std::vector<std::string>& others) {
  constexpr long kWord = 4;
  Case one{"", workload, std::move(values), {"DeviceCopy"}, title};
  one.references.insert(one.references.end(), others.begin(), others.end());
  one.reference_settings = [copied_bytes](const WorkloadSpec& reference, const Settings& settings) {
    if (reference.name != "DeviceCopy") return settings;
    const long words = std::max(1L, (copied_bytes(settings) + kWord - 1) / kWord);
    return SettingsOf(reference.axes, {{"bytes", std::to_string(words * kWord)}});
  };
  return one;
}

}  // namespace overlapbench

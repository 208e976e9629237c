#include "workload/element.h"

#include <algorithm>
#include <array>

#include "device/error.h"

namespace overlapbench {
namespace {

struct ElementName {
  Element element;
  std::string_view name;
  std::string_view short_name;  // as in the axis `precision`
};
constexpr std::array<ElementName, 6> kElementNames = {{{Element::kFloat32, "float32", "fp32"},
                                                       {Element::kFloat16, "float16", "fp16"},
                                                       {Element::kBfloat16, "bfloat16", "bf16"},
                                                       {Element::kFloat64, "float64", "fp64"},
                                                       {Element::kInt32, "int32", "int32"},
                                                       {Element::kFloat8, "float8_e4m3", "fp8"}}};

}  // namespace

Element ElementNamed(std::string_view name) {
  const auto* entry = std::ranges::find_if(kElementNames, [name](const ElementName& entry) {
    return entry.name == name || entry.short_name == name;
  });
  if (entry == kElementNames.end())
    throw Error("there is no element type '" + std::string(name) + "'");
  return entry->element;
}

std::string ToString(Element element) {
  return std::string(std::ranges::find(kElementNames, element, &ElementName::element)->name);
}

}  // namespace overlapbench

#include "workload/element.h"

#include <algorithm>
#include <array>

namespace overlapbench {
namespace {

struct ElementName {
  Element element;
  std::string_view name;
};
constexpr std::array<ElementName, 6> kElementNames = {{{Element::kFloat32, "float32"},
                                                       {Element::kFloat16, "float16"},
                                                       {Element::kBfloat16, "bfloat16"},
                                                       {Element::kFloat64, "float64"},
                                                       {Element::kInt32, "int32"},
                                                       {Element::kFloat8, "float8_e4m3"}}};

}  // namespace

Element ElementNamed(std::string_view name) {
  const auto* entry = std::ranges::find(kElementNames, name, &ElementName::name);
  if (entry == kElementNames.end())
    throw Error("no element type is called '" + std::string(name) + "'");
  return entry->element;
}

std::string ToString(Element element) {
  return std::string(std::ranges::find(kElementNames, element, &ElementName::element)->name);
}

}  // namespace overlapbench

// ProductGroups: groups of products D = A·W that differ in their rows only, each group one call.
//
// An expert layer multiplies the rows of every expert by that expert's weight. GPUs use cuBLAS'
// grouped product, which production code calls for this: one kernel instead of one for each pair of
// an expert and a rank that has sent it rows. The host backend's blocks take the rows of all
// products in turn. `identical` to the products one by one on the host backend only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device/device.h"
#include "workload/rounding_error.h"
#include "workload/workload.h"

namespace overlapbench {

struct GroupMember {
  long rows = 0;
  const void* a = nullptr;
  const void* w = nullptr;
  void* d = nullptr;
};
using ProductGroup = std::vector<GroupMember>;

class ProductGroups {
 public:
  virtual ~ProductGroups() = default;
  virtual void Enqueue(Stream& stream, std::size_t group) const = 0;
  // Of the results, for exact inputs.
  [[nodiscard]] virtual RoundingError error() const = 0;
};

// Of LayerElement(machine.device), row-major; W is k×n. Copies pointers to the device on `stream`.
// Throws Error where cuBLAS is missing or has no grouped product.
std::unique_ptr<ProductGroups> MakeProductGroups(const Machine& machine, Stream& stream, long n,
                                                 long k, const std::vector<ProductGroup>& groups);
std::unique_ptr<ProductGroups> MakeCublasGroups(const Machine& machine, Stream& stream, long n,
                                                long k, const std::vector<ProductGroup>& groups);

}  // namespace overlapbench

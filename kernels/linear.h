// Linear: the products in layers, D = A·W (+ added), on tensors.
//
// W has random values. A work is one product, whose parts are equal slices of D's rows, or several
// products in sequence, which its parts share equally. Several may write rows of one tensor. GPUs
// use cuBLASLt, with an algorithm chosen for each number of rows; the host backend uses loops in
// float32. Cost: 2·m·n·k operations. Results are checked against the inputs' oracles in double
// precision, at a sample of elements (workload/tensor.h).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "workload/axis.h"
#include "workload/tensor.h"
#include "workload/tensor_step.h"

namespace overlapbench {

struct LinearProblem {
  SharedTensor a = {};      // its rows from `a_row` on, as many as D has
  SharedTensor w = {};      // [columns of A, columns of D], from row `w_row` on
  SharedTensor added = {};  // like D, or none
  SharedTensor d = {};      // `rows` of it from `d_row` on; 0: all
  long a_row = 0;
  long w_row = 0;
  long d_row = 0;
  long rows = 0;
  std::uint32_t seed = 0;  // for A, W and `added`, if no other work makes them
};

std::unique_ptr<Workload> MakeLinear(const Machine& machine, std::vector<LinearProblem> problems);

// The element type that layers have on this backend.
Element LayerElement(const Device& device);

// D = A·W (+ added) for row-major matrices of one size, one of which may be stored transposed.
class Product {
 public:
  virtual ~Product() = default;
  virtual void Enqueue(Stream& stream, const void* a, const void* w, const void* added,
                       void* d) const = 0;
};
enum class Transposed : std::uint8_t { kNone, kA, kW };
struct ProductSize {
  long m = 0;  // rows of D
  long n = 0;  // its columns
  long k = 0;
  Transposed transposed = Transposed::kNone;
  auto operator<=>(const ProductSize&) const = default;
};
// A product as a tensor step, checked against what A and W hold. The three are a layer's passes:
// the result, the gradient of its weights (Aᵀ·W), and the gradient of its input (A·Wᵀ). A part is
// some rows of A and D; Aᵀ·W, whose rows are columns of A, is not cut.
TensorStep ProductStep(const Machine& machine, const SharedTensor& a, const SharedTensor& w,
                       const SharedTensor& d, Transposed transposed, std::uint32_t seed);

// The axis of Machine::sm_target, and why a GPU does not support its value; "" if it does.
Axis SmTargetAxis();
std::string ExcludedSmTarget(const DeviceInfo& gpu, const Settings& settings);

// Opens cuBLASLt, unless this build has none. Throws Error if it is not installed.
void LoadCublasLt();

// Products of one element type, by cuBLASLt; throws Error in builds without it.
class Products {
 public:
  virtual ~Products() = default;
  virtual std::unique_ptr<Product> Make(const ProductSize& size) = 0;
  // Of the results of what was made, for exact inputs.
  [[nodiscard]] virtual RoundingError error() const = 0;
  // Why the machine's sm_target had no effect on what was made; "" if it had.
  [[nodiscard]] virtual std::string IneffectiveKnob() const { return ""; }
};
std::shared_ptr<Products> MakeCublasProducts(const Machine& machine, Element element);
// The products of LayerElement(machine.device), planned for machine.sm_target SMs.
std::shared_ptr<Products> MakeProducts(const Machine& machine);

// The workspace of each set of products; each has its own, since works run beside each other. For
// cuBLASLt, what NVIDIA recommends for Hopper (cuBLAS documentation, cublasSetWorkspace).
inline constexpr std::size_t kProductWorkspaceBytes = std::size_t{32} << 20;
// The workspace of MakeProducts, which the footprint of a work that multiplies includes.
std::size_t ProductWorkspaceBytes(const Device& device);

}  // namespace overlapbench

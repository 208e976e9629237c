// Gemm: the report's grid-controlled matrix product, C = A·B on n×n float32 matrices.
//
// The grid gx×gy sets how many SMs the kernel occupies; it is the knob of the central experiment.
// A block has 16×16 threads and computes 16×16 tiles of C, one element per thread, straight from
// global memory.
//
//   work:tile  Each block computes ONE tile, so the work grows with the grid: C's first 16·gy rows
//              and 16·gx columns. This is the report's form; gx and gy are at most n/16.
//   work:full  The same grid strides over all tiles of C, so only the occupancy changes.
//
// Cost: 2·n floating-point operations per computed element. The kernel is naive on purpose; for a
// fast product use CublasGemm.

#include <algorithm>

#include "device/launch.h"
#include "kernels/gemm_oracle.h"
#include "kernels/grid_gemm_body.h"
#include "workload/registry.h"
#include "workload/sample_check.h"

namespace overlapbench {
namespace {

using grid_gemm::kTile;

class GridGemmWorkload : public Workload {
 public:
  GridGemmWorkload(const Machine& machine, const Settings& settings)
      : machine_(machine), n_(settings.Integer("n")), grid_(settings.Grid("grid")) {
    const int tiles = static_cast<int>(n_ / kTile);
    const bool full = settings.Text("work") == "full";
    tiles_x_ = full ? tiles : grid_.x;
    tiles_y_ = full ? tiles : grid_.y;
    const std::size_t matrix_bytes = n_ * n_ * sizeof(float);
    a_ = machine.device.Allocate(matrix_bytes, MemoryKind::kDevice);
    b_ = machine.device.Allocate(matrix_bytes, MemoryKind::kDevice);
    c_ = machine.device.Allocate(matrix_bytes, MemoryKind::kDevice);
  }

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    const double rows = static_cast<double>(tiles_y_) * kTile;
    const double columns = static_cast<double>(tiles_x_) * kTile;
    const auto k = static_cast<double>(n_);
    cost.Add({problem().m, problem().n, n_});
    cost.moved_bytes = sizeof(float) * (rows * k + k * columns + rows * columns);
    return cost;
  }

  void Reset(Stream& stream) override {
    FillFractions(stream, a_.data(), n_ * n_, Element::kFloat32, problem().seed_a);
    FillFractions(stream, b_.data(), n_ * n_, Element::kFloat32, problem().seed_b);
    Poison(stream, c_.data(), c_.bytes());
  }

  void Enqueue(Stream& stream) override {
    Launch(
        stream, grid_.x * grid_.y,
        grid_gemm::Body{static_cast<const float*>(a_.data()), static_cast<const float*>(b_.data()),
                        static_cast<float*>(c_.data()), n_, grid_.x, grid_.y, tiles_x_, tiles_y_});
  }

  Verdict Verify(Stream& stream) override {
    return VerifyGemm(machine_.device, stream, c_.data(), problem(), machine_.timeout,
                      CheckingThreads(machine_.ranks));
  }

 private:
  [[nodiscard]] GemmProblem problem() const {
    GemmProblem problem;
    problem.m = static_cast<long>(tiles_y_) * kTile;
    problem.n = static_cast<long>(tiles_x_) * kTile;
    problem.k = problem.b_columns = problem.c_columns = n_;
    problem.error = ErrorOfSum(n_).Stored(Element::kFloat32);
    return problem;
  }

  Machine machine_;
  long n_;
  GridShape grid_;
  int tiles_x_ = 0;
  int tiles_y_ = 0;
  Buffer a_;
  Buffer b_;
  Buffer c_;
};

std::string ExcludedGrid(const Settings& settings) {
  const long n = settings.Integer("n");
  const GridShape grid = settings.Grid("grid");
  if (n % kTile != 0) return "n must be a multiple of 16";
  if (settings.Text("work") == "tile" && std::max(grid.x, grid.y) > n / kTile) {
    return "with work:tile the grid has at most n/16 = " + std::to_string(n / kTile) +
           " blocks per side";
  }
  return "";
}

}  // namespace

std::vector<WorkloadSpec> GridGemm(Machine& machine) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = "Gemm";
  spec.summary = "naive float32 matrix product whose grid sets how many SMs it occupies";
  spec.axes = {
      IntegerAxis("n", "rows and columns of the matrices, a multiple of 16", kTile, 1 << 16,
                  host ? "256" : "4096"),
      GridAxis(
          "grid", "blocks of 16x16 threads",
          host ? "1x1,2x2,4x4,8x8,16x16" : "1x1,4x4,8x8,16x16,32x32,40x40,64x64,128x128,256x256"),
      ChoiceAxis("work", "tile: one 16x16 tile a block; full: the grid strides over the matrix",
                 {"tile", "full"}, "tile")};
  spec.excluded = ExcludedGrid;
  spec.footprint = [](const Settings& settings) {
    const long n = settings.Integer("n");
    return Footprint{3 * n * n * sizeof(float), 0};
  };
  spec.make = MakerOf<GridGemmWorkload>(machine);
  return {spec};
}

}  // namespace overlapbench

// Tolerances: every workload whose result is rounded refuses it if all elements are off by a few
// times its tolerance. An oracle that compares correctly but allows ten times as much fails here.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/catalog.h"
#include "recording_device.h"
#include "test_ranks.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

struct Case {
  std::string name;
  std::vector<std::pair<std::string, std::string>> values;
  Element element;
  double error;  // relative, of every element
};

class ToleranceTest : public RanksOnEachBackend {
 protected:
  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    device_ = std::make_unique<RecordingDevice>(OpenDevice());
    machine_ = std::make_unique<Machine>(Machine{*device_, TestRanks()});
    FillRegistry(registry_, *machine_);
    stream_ = device_->CreateStream({});
  }

  // What is found in a right result whose elements were all multiplied by 1 + error.
  Verdict VerdictAt(const Case& one, double error) {
    const WorkloadSpec& spec = registry_.Find(one.name);
    device_->TakeAllocated();
    const auto workload = spec.make(SettingsOf(spec.axes, one.values));
    const auto buffers = device_->TakeAllocated();
    workload->Reset(*stream_);
    const auto before = Read(buffers);
    workload->Enqueue(*stream_);
    auto after = Read(buffers);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (after[i] == before[i]) continue;
      const auto count = static_cast<long>(after[i].size() / SizeOf(one.element));
      for (long at = 0; at < count; ++at) {
        const double right = Load(after[i].data(), at, one.element);
        Store(after[i].data(), at, one.element, static_cast<float>(right * (1 + error)));
      }
      stream_->Copy(buffers[i].data(), after[i].data(), after[i].size());
    }
    return workload->Verify(*stream_);
  }

 private:
  std::vector<std::vector<std::byte>> Read(const std::vector<std::span<std::byte>>& buffers) {
    std::vector<std::vector<std::byte>> all;
    for (const auto& buffer : buffers) {
      all.emplace_back(buffer.size());
      stream_->Copy(all.back().data(), buffer.data(), buffer.size());
    }
    stream_->Synchronize(kRanksPatience, "reading buffers");
    return all;
  }

  std::unique_ptr<RecordingDevice> device_;
  std::unique_ptr<Machine> machine_;
  Registry registry_;
  std::unique_ptr<Stream> stream_;
};
INSTANTIATE_ON_EACH_BACKEND(ToleranceTest);

TEST_P(ToleranceTest, AnErrorAFewTimesTheToleranceIsRefused) {
  const auto softmax = [](const char* precision) {
    return std::vector<std::pair<std::string, std::string>>{
        {"columns", "64"}, {"matrix_bytes", "16K"}, {"precision", precision}};
  };
  const auto gelu = [](const char* precision) {
    return std::vector<std::pair<std::string, std::string>>{{"count", "1024"},
                                                            {"precision", precision}};
  };
  const std::vector<std::pair<std::string, std::string>> gemm = {{"n", "64"}, {"grid", "4x4"}};
  const std::vector<std::pair<std::string, std::string>> attention = {{"heads", "2"},
                                                                      {"sequence", "128"}};
  const Case cases[] = {{"Gemm", gemm, Element::kFloat32, 6e-6},
                        {"SoftmaxFused", softmax("fp32"), Element::kFloat32, 1e-4},
                        {"SoftmaxFused", softmax("bf16"), Element::kBfloat16, 0.02},
                        {"SoftmaxFused", softmax("fp16"), Element::kFloat16, 0.003},
                        {"GeluFused", gelu("fp32"), Element::kFloat32, 6e-6},
                        {"GeluFused", gelu("bf16"), Element::kBfloat16, 0.02},
                        {"GeluFused", gelu("fp16"), Element::kFloat16, 0.003},
                        {"Attention", attention, Element::kBfloat16, 0.08}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name + " in " + ToString(one.element));
    EXPECT_EQ(VerdictAt(one, 0).fault, "");
    const Verdict wrong = VerdictAt(one, one.error);
    EXPECT_NE(wrong.fault, "");
    EXPECT_GT(wrong.max_rel_err, wrong.tolerance);
  }
}

}  // namespace
}  // namespace overlapbench

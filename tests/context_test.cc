// What a result says of its run: the context, the build, and the resources that the ranks hold.
#include "fixtures/context.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/prologue.h"
#include "device/descriptor.h"
#include "device/host/host_load.h"
#include "fixtures/build.h"
#include "fixtures/resources.h"
#include "test_ranks.h"
#include "tests/forwarding_device.h"

namespace overlapbench {
namespace {

// Every other rank is on another host, as far as NCCL is concerned. Set before the ranks start.
const bool kHasHosts = setenv("NCCL_HOSTID", ByLauncher().rank % 2 == 0 ? "b" : "a", 1) == 0;

// A host device whose every answer is known: any two events are 0.1234 ms apart.
class KnownDevice : public ForwardingDevice {
 public:
  KnownDevice() : ForwardingDevice(OpenHostDevice(1)) {
    info_.name = TestRanks().is_root() ? "XPU 2" : "XPU 1";
    info_.multiprocessors = 7;
    info_.cache_bytes = 1 << 20;
    info_.versions = {{"driver_version", "580.1"}};
  }
  [[nodiscard]] Backend backend() const override { return shown; }
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] Memory memory(MemoryKind /*kind*/) const override { return {1000, 4096}; }
  std::unique_ptr<Stream> CreateStream(const StreamOptions& options) override {
    ++streams;
    return ForwardingDevice::CreateStream(options);
  }
  std::unique_ptr<Gate> CreateGate() override {
    ++gates;
    return ForwardingDevice::CreateGate();
  }
  [[nodiscard]] double ElapsedMs(const Event& /*from*/, const Event& /*to*/) const override {
    return 0.1234;
  }
  Buffer Allocate(std::size_t bytes, MemoryKind kind) override {
    ++allocated;
    return ForwardingDevice::Allocate(bytes, kind);
  }
  [[nodiscard]] std::map<std::string, std::string> Surroundings() const override {
    return {{"sm_clock_MHz", "1980"}};
  }

  Backend shown = Backend::kHost;
  int streams = 0;
  int gates = 0;
  int allocated = 0;

 private:
  DeviceInfo info_ = ForwardingDevice::info();
};

// Those of whoever runs the tests. MPI keeps its own.
void UnsetRecordedVariables() {
  std::vector<std::string> names;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string name = std::string(*one).substr(0, std::string(*one).find('='));
    for (const char* kind : {"CUDA_", "NCCL_", "OMP_", "SLURM_"})
      if (name.starts_with(kind) && name != "NCCL_HOSTID") names.push_back(name);
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

TEST(DescribeRun, HasEveryFactAndTheRecordedVariables) {
  ASSERT_TRUE(kHasHosts);
  const int ranks = TestRanks().size();
  UnsetRecordedVariables();
  setenv("NCCL_ALGO", "Ring", 1);
  setenv("SECRET_TOKEN", "x", 1);
  KnownDevice device;
  Options options;
  options.gate = false;
  Context context = DescribeRun({device, TestRanks()}, options, {{"nccl_version", "2.28"}});
  EXPECT_EQ(device.gates, 0);
  EXPECT_EQ(device.streams, 2) << "an empty sample has one lane, and a stream that forks it";
  EXPECT_EQ(device.allocated, 0) << "an empty sample flushes nothing";
  EXPECT_NE(context["git_revision"], "");
  context.erase("git_revision");
  Context expected = {
      {"overlapbench_schema", "2"},
      {"backend", "host"},
      {"ranks", std::to_string(ranks)},
      {"hosts", ranks == 1 ? "b" : "a, b"},
      {"ranks_by_host", ranks == 1   ? "b: rank 0"
                        : ranks == 2 ? "b: rank 0; a: rank 1"
                                     : "b: ranks 0, 2; a: rank 1"},
      {"allowed_cores", std::to_string(AllowedCores().size())},
      {"device", ranks == 1 ? "XPU 2" : "XPU 1, XPU 2"},
      {"device_multiprocessors", "7"},
      {"device_cache_bytes", "1048576"},
      {"device_memory_bytes", "4096"},
      {"mpi_version", Ranks::LibraryVersion()},
      {"gate", "off"},
      {"empty_sample_us", "123"},
      {"driver_version", "580.1"},
      {"nccl_version", "2.28"},
      {"sm_clock_MHz", "1980"},
  };
  if (const auto quota = CoreQuota()) expected["core_quota"] = fmt::format("{:g}", *quota);
  for (const char* variable : {"NCCL_ALGO", "OMPI_MCA_btl", "OMPI_MCA_pml"}) {
    if (const char* value = std::getenv(variable)) expected[std::string("env_") + variable] = value;
  }
  EXPECT_EQ(context, expected);
  options.gate = true;
  options.inject_delay = "Gemm:5";
  context = DescribeRun({device, TestRanks()}, options, {});
  EXPECT_EQ(context["gate"], "on");
  EXPECT_EQ(context["injected_delay"], "Gemm:5");
  EXPECT_GT(device.gates, 0);
}

TEST(AddContext, SaysWhatMetersEnergyOrWhyNothingDoes) {
  KnownDevice device;
  const Options options;
  Suite suite{{device, TestRanks()}, options};
  const auto added = [&] {
    testing::internal::CaptureStderr();  // Google Benchmark notes that a process adds it again
    Context context = AddContext(suite, {}, {.load = "", .network = "Socket"});
    testing::internal::GetCapturedStderr();
    return context;
  };
  Context context = added();
  EXPECT_FALSE(context.contains("energy"));
  EXPECT_EQ(context.at("nccl_network"), "Socket");
  EXPECT_FALSE(context.contains("nccl_version")) << "the host backend calls no NCCL";
  suite.energy = {.counter = "known", .idle_W = 80.126, .period_ms = 100.4};
  context = added();
  EXPECT_EQ(context.at("energy"), "known, a tick every 100 ms");
  EXPECT_EQ(context.at("idle_W"), "80.13");
  suite.energy->missing = "the meter is on strike";
  context = added();
  EXPECT_EQ(context.at("energy"), "not available: the meter is on strike");
  EXPECT_FALSE(context.contains("idle_W"));
}

TEST(DescribeInOneLine, NamesUpToFourHostsAndTheVersionsThatThereAre) {
  Context context = {{"backend", "host"}, {"ranks", "1"},           {"hosts", "a, b, c, d"},
                     {"device", "CPU"},   {"mpi_version", "MPI 4"}, {"empty_sample_us", "12"}};
  EXPECT_EQ(DescribeInOneLine(context),
            "backend: host, 1 rank on a, b, c, d, CPU, MPI 4; an empty sample takes 12 us");
  context["ranks"] = "5";
  context["hosts"] = "a, b, c, d, e";
  context["driver_version"] = "580";
  context["cuda_runtime"] = "13.0";
  context["nccl_version"] = "2.28";
  context["nccl_network"] = "IB";
  EXPECT_EQ(DescribeInOneLine(context),
            "backend: host, 5 ranks on 5 hosts, CPU, driver 580, CUDA 13.0, NCCL 2.28, by its "
            "network IB, MPI 4; an empty sample takes 12 us");
}

// ---- The build

// A note: the sizes of its name and description, its type, and both, padded to four bytes.
std::string Note(std::string name, std::string description, char type) {
  std::string note(12, '\0');
  note[0] = static_cast<char>(name.size());
  note[4] = static_cast<char>(description.size());
  note[8] = type;
  for (std::string* part : {&name, &description}) part->resize((part->size() + 3) & ~3UL);
  return note + name + description;
}

TEST(BuildId, IsFoundAmongOtherNotes) {
  const std::string gnu("GNU\0", 4);
  const std::string own = Note(gnu, "\x01\xab\xff", 3);
  EXPECT_EQ(BuildIdIn(own), "01abff");
  EXPECT_EQ(BuildIdIn(Note(gnu, "other", 1) + Note("stapsdt", "x", 3) + own), "01abff");
  EXPECT_EQ(BuildIdIn(Note(gnu, "", 1) + own + Note(gnu, "\x02", 3)), "01abff");
  EXPECT_EQ(BuildIdIn(own.substr(0, own.size() - 1)), "") << "cut off";
  EXPECT_EQ(BuildIdIn(std::string(11, '\0')), "");
  EXPECT_EQ(BuildIdIn(""), "");
}

TEST(BuildId, IsThatOfThisProgram) {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string program(std::istreambuf_iterator<char>(file), {});
  const std::string head("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);
  const auto place = program.find(head);
  ASSERT_NE(place, std::string::npos);
  EXPECT_EQ(BuildId(), BuildIdIn(program.substr(place, head.size() + 20)));
  EXPECT_EQ(BuildId().size(), 40U);
}

TEST(RequireSameBuild, NamesEachBuildWithItsRanksAndHost) {
  EXPECT_NO_THROW(RequireSameBuild(TestRanks()));
  EXPECT_TRUE(OwnBuild().ends_with(", build " + BuildId())) << OwnBuild();
  if (TestRanks().size() < 3) return;
  const char* const id = TestRanks().rank() == 1 ? "f123456789" : "0123456789";
  const std::string host = " (on " + Ranks::HostName() + ")";
  try {
    RequireSameBuild(TestRanks(), std::string("version 1, build ") + id);
    FAIL() << "they differ";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.what(),
              "the ranks run different builds: ranks 0, 2: version 1, build 01234567" + host +
                  "; rank 1: version 1, build f1234567" + host +
                  "; install the same build on all hosts");
  }
}

// ---- Resources

TEST(Resources, CountWhatIsHeld) {
  KnownDevice device;
  const Resources before = ResourcesNow(device);
  const auto stream = device.CreateStream({});
  const auto event = device.CreateEvent({});
  const Buffer buffer(new char, 1, [](void* byte) { delete static_cast<char*>(byte); });
  const Descriptor descriptor(dup(STDIN_FILENO));
  constexpr double kTouched_bytes = 1 << 25;
  const std::vector<char> touched(static_cast<std::size_t>(kTouched_bytes), 'x');
  const Resources now = ResourcesNow(device);
  const Resources more = {
      now[0] - before[0], 1, 1, 0, 1, 1, 1};  // a stream of the host is a thread
  EXPECT_NEAR(more[0], static_cast<double>(touched.size()), kTouched_bytes / 4);
  for (std::size_t i = 1; i < more.size(); ++i)
    EXPECT_EQ(now.at(i) - before.at(i), more.at(i)) << kResourceNames.at(i);
  EXPECT_EQ(before[3], 0);
  const auto descriptors = std::filesystem::directory_iterator("/proc/self/fd");
  EXPECT_EQ(now[1], std::distance(begin(descriptors), end(descriptors)) - 1);
  device.shown = Backend::kCuda;
  EXPECT_EQ(ResourcesNow(device)[3], 4096 - 1000);
}

TEST(ResourceLog, HasTheMaximaOverTheRanks) {
  KnownDevice device;
  std::vector<std::unique_ptr<Event>> events(2);  // and one more for each rank before this one
  for (int i = 0; i <= TestRanks().rank(); ++i) events.push_back(device.CreateEvent({}));
  Resources most = ResourcesNow(device);
  TestRanks().Max(most, "the test");
  const ResourceLog log({device, TestRanks()});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::istringstream line(log.Line("Family/Row", 7));
  std::vector<std::string> fields;
  for (std::string field; std::getline(line, field, ',');) fields.push_back(field);
  ASSERT_EQ(fields.size(), 3 + most.size());
  EXPECT_GE(std::stod(fields[0]), 0.02);
  EXPECT_LT(std::stod(fields[0]), 20);
  EXPECT_EQ(fields[1] + fields[2], "Family/Row7");
  EXPECT_NEAR(std::stod(fields[3]), most[0], 1 << 22);
  for (std::size_t i = 1; i < most.size(); ++i)
    EXPECT_EQ(std::stod(fields[3 + i]), most.at(i)) << kResourceNames.at(i);
  EXPECT_TRUE(fields.back().ends_with('\n'));
  EXPECT_EQ(ResourceLog::Header(),
            fmt::format("seconds,benchmark,groups,{}\n", fmt::join(kResourceNames, ",")));
}

}  // namespace
}  // namespace overlapbench

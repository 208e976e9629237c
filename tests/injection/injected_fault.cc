#include "tests/injection/injected_fault.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <sstream>
#include <string_view>
#include <thread>

namespace overlapbench {
namespace {

// The target of a fault. Before MPI has started there is no device and no link.
struct Target {
  const Fault& fault;
  FaultyDevice* device;
  const std::function<void()>& abort_links;
};

// Signals this process, as a launcher or a user would.
void Signal(int signal) { kill(getpid(), signal); }

void SleepMs(long ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// The phases' short names, in the order of Phase.
constexpr std::array<std::string_view, 15> kPhaseNames = {
    "start", "agree", "connect", "make",   "fill",  "first", "verify", "enqueue",
    "meet",  "wait",  "times",   "report", "write", "end",   "between"};

Phase PhaseNamed(std::string_view name) {
  const auto* const found = std::ranges::find(kPhaseNames, name);
  if (found != kPhaseNames.end()) return static_cast<Phase>(found - kPhaseNames.begin());
  throw UsageError(
      fmt::format("there is no phase '{}': choose one of {}", name, fmt::join(kPhaseNames, ", ")));
}

struct Kind {
  std::string_view name;
  std::string_view help;
  bool needs_device;
  void (*strike)(const Target& target);
};

constexpr std::array<Kind, 16> kKinds = {{
    {"kill", "the process ends at once (SIGKILL)", false, [](const Target&) { Signal(SIGKILL); }},
    {"stop", "the process freezes, its watchdog included (SIGSTOP)", false,
     [](const Target&) { Signal(SIGSTOP); }},
    {"stall", "the main thread stops making progress", false,
     [](const Target&) {
       for (;;) pause();
     }},
    {"exit", "the process exits silently with status 0", false, [](const Target&) { _exit(0); }},
    {"crash", "the process dies of an invalid access (SIGSEGV)", false,
     [](const Target&) { Signal(SIGSEGV); }},
    {"interrupt", "SIGINT, as by Ctrl-C", false, [](const Target&) { Signal(SIGINT); }},
    {"terminate", "SIGTERM", false, [](const Target&) { Signal(SIGTERM); }},
    {"hangup", "SIGHUP, as by a closed terminal", false, [](const Target&) { Signal(SIGHUP); }},
    {"delay", "the phase begins `ms` milliseconds late", false,
     [](const Target& t) { SleepMs(t.fault.ms); }},
    {"fail", "a call in the phase fails", false,
     [](const Target&) { throw Error("a call failed (injected)"); }},
    {"disk", "no file can grow beyond `bytes`", false,
     [](const Target& t) {
       const rlimit limit{static_cast<rlim_t>(t.fault.bytes), RLIM_INFINITY};
       setrlimit(RLIMIT_FSIZE, &limit);
     }},
    {"memory", "an allocation asks for more memory than exists", true,
     [](const Target& t) { t.device->Allocate(std::size_t{1} << 60U, MemoryKind::kDevice); }},
    {"kernel", "a kernel fails while it runs", true,
     [](const Target& t) { t.device->BreakKernel(); }},
    {"corrupt", "one bit of every device buffer is flipped", true,
     [](const Target& t) { t.device->CorruptBuffers(); }},
    {"link", "the links beside MPI's are aborted (cuda: NCCL's)", true,
     [](const Target& t) { t.abort_links(); }},
    {"throttle", "the device reports throttled clocks", true,
     [](const Target& t) { t.device->Throttle(); }},
}};

const Kind* KindNamed(std::string_view name) {
  for (const auto& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

[[noreturn]] void Refuse(const std::string& text, const std::string& why) {
  throw UsageError("--inject_fault=" + text + ": " + why);
}

long* FieldNamed(Fault& fault, std::string_view name) {
  if (name == "rank") return &fault.rank;
  if (name == "visit") return &fault.visit;
  if (name == "ms") return &fault.ms;
  if (name == "bytes") return &fault.bytes;
  return nullptr;
}

void SetField(Fault& fault, const std::string& text, const std::string& assignment) {
  const auto equals = assignment.find('=');
  long* field = FieldNamed(fault, assignment.substr(0, equals));
  const std::string value = equals == std::string::npos ? "" : assignment.substr(equals + 1);
  if (field == nullptr || value.empty() || value.size() > 12 ||
      value.find_first_not_of("0123456789") != std::string::npos) {
    Refuse(text, "'" + assignment + "' is not one of rank=, visit=, ms= and bytes= with a number");
  }
  *field = std::stol(value);
}

}  // namespace

Fault ParseFault(const std::string& text) {
  std::istringstream parts(text);
  std::string head;
  std::getline(parts, head, ',');
  const auto at = head.find('@');
  if (at == std::string::npos) Refuse(text, "takes KIND@PHASE[,rank=R][,visit=N][,ms=M][,bytes=B]");
  Fault fault;
  fault.kind = head.substr(0, at);
  if (KindNamed(fault.kind) == nullptr) {
    Refuse(text, "there is no kind '" + fault.kind + "': choose one of\n" + FaultKinds());
  }
  fault.phase = PhaseNamed(head.substr(at + 1));
  for (std::string assignment; std::getline(parts, assignment, ',');) {
    SetField(fault, text, assignment);
  }
  return fault;
}

std::string FaultKinds() {
  std::string text;
  for (const auto& kind : kKinds) {
    std::string name = "  " + std::string(kind.name);
    name.resize(14, ' ');
    text += name + std::string(kind.help) + "\n";
  }
  return text;
}

bool FaultInjector::Take(const std::string& argument) {
  constexpr std::string_view kFlag = "--inject_fault=";
  if (!argument.starts_with(kFlag)) return false;
  const std::string text = argument.substr(kFlag.size());
  faults_.push_back(ParseFault(text));
  given_ += (given_.empty() ? "" : " ") + text;
  return true;
}

void FaultInjector::Begin(Progress& progress) {
  std::erase_if(faults_, [&](const Fault& fault) { return fault.rank != progress.rank(); });
  visits_.resize(faults_.size());
  if (!faults_.empty()) progress.Observe([this](Phase phase) { Strike(phase); });
}

std::unique_ptr<Device> FaultInjector::Wrap(std::unique_ptr<Device> device,
                                            const std::function<void()>& abort_links) {
  if (given_.empty()) return device;
  auto faulty = std::make_unique<FaultyDevice>(std::move(device), given_);
  device_ = faulty.get();
  abort_links_ = abort_links;
  return faulty;
}

void FaultInjector::Strike(Phase phase) {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (fault.phase != phase || ++visits_[i] != fault.visit) continue;
    const Kind& kind = *KindNamed(fault.kind);
    if (kind.needs_device && device_ == nullptr) continue;
    kind.strike({fault, device_, abort_links_});
  }
}

}  // namespace overlapbench

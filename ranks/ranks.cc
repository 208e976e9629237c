#include "ranks/ranks.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "device/host/host_load.h"
#include "device/wait.h"

namespace overlapbench {
namespace {

constexpr int kClockTag = 1;  // notices.cc uses another
constexpr std::chrono::milliseconds kLastWordsPatience(100);
constexpr std::chrono::milliseconds kRollCallPatience(300);

// The value of the first of `variables` that is set; `otherwise` if none is.
template <std::size_t Count>
int FirstSet(const char* const (&variables)[Count], int otherwise) {
  for (const char* variable : variables) {
    if (const char* value = std::getenv(variable))
      return static_cast<int>(std::strtol(value, nullptr, 10));
  }
  return otherwise;
}

// Step numbers from 4294967290 on stand for an allocation's own shells.
bool IsSlurmTask() {
  constexpr unsigned long long kFirstOfShells = 4294967290;
  const char* step = std::getenv("SLURM_STEP_ID");
  return step != nullptr && *step != '\0' && std::strtoull(step, nullptr, 10) < kFirstOfShells;
}

// Never frees it, not even at exit: MPI's threads may use it until then.
void KeepForMpi(const std::shared_ptr<const void>& memory) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(mutex);
  kept.push_back(memory);
}

// A copy of the caller's values, for MPI.
template <class Value>
std::shared_ptr<std::vector<Value>> Lend(std::span<Value> values) {
  return std::make_shared<std::vector<Value>>(values.begin(), values.end());
}

std::string Missing(const std::vector<int>& ranks, std::chrono::milliseconds timeout) {
  if (ranks.empty())
    return fmt::format("all ranks arrived, but the operation did not finish within {}",
                       InSeconds(timeout));
  return fmt::format("{} did not arrive within {}; {} stopped or {} doing something else",
                     NameRanks(ranks), InSeconds(timeout),
                     ranks.size() == 1 ? "it has" : "they have", ranks.size() == 1 ? "is" : "are");
}

}  // namespace

RankPlace ByLauncher() {
  const bool slurm = IsSlurmTask();
  const int by_mpi = FirstSet({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}, -1);
  const int size =
      FirstSet({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, slurm ? FirstSet({"SLURM_NTASKS"}, 1) : 1);
  if (by_mpi >= 0) return {by_mpi, size};
  return {slurm ? FirstSet({"SLURM_PROCID"}, 0) : 0, size, size > 1};
}

std::string NameRanks(const std::vector<int>& ranks) {
  std::vector<std::pair<int, int>> runs;  // of ranks that follow each other
  for (const int rank : ranks) {
    if (!runs.empty() && rank == runs.back().second + 1)
      runs.back().second = rank;
    else
      runs.emplace_back(rank, rank);
  }
  std::string names;
  for (const auto& [first, last] : runs) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", first);
    if (last > first) names += fmt::format("{}{}", last == first + 1 ? ", " : "-", last);
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + names;
}

std::string CombineErrors(const std::vector<std::string>& errors) {
  std::vector<std::string> distinct;
  std::map<std::string, std::vector<int>> ranks_of;
  for (int rank = 0; rank < std::ssize(errors); ++rank) {
    if (errors[rank].empty()) continue;
    auto& ranks = ranks_of[errors[rank]];
    if (ranks.empty()) distinct.push_back(errors[rank]);
    ranks.push_back(rank);
  }
  if (ranks_of[distinct.front()].size() == errors.size()) return distinct.front();
  std::string all;
  for (const auto& text : distinct)
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", NameRanks(ranks_of[text]), text);
  return all;
}

void ThrowIfMpiFailed(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(fmt::format("{} failed: {}", call, text.data()));
}

Ranks::Ranks(std::chrono::milliseconds timeout, Progress& progress)
    : timeout_(timeout), progress_(progress) {
  const Progress::Scope scope(progress_, Phase::kStart);
  // MPI_THREAD_MULTIPLE: streams of the host backend call MPI from their own threads.
  int started = 0;
  int ended = 0;
  int provided = 0;
  MPI_CHECK(MPI_Finalized(&ended));
  // MPI itself would end the process.
  if (ended != 0) throw Error("MPI was finalized in this process and cannot be initialized again");
  MPI_CHECK(MPI_Initialized(&started));
  ends_mpi_ = started == 0;
  if (ends_mpi_) {
    MPI_CHECK(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
  } else {
    MPI_CHECK(MPI_Query_thread(&provided));
  }
  if (provided < MPI_THREAD_MULTIPLE) {
    throw Error(ends_mpi_ ? "MPI_Init_thread: this MPI library does not support MPI_THREAD_MULTIPLE"
                          : "MPI was already initialized without MPI_THREAD_MULTIPLE");
  }
  // MPI reports errors of requests on MPI_COMM_WORLD. By default they would end the process before
  // it can save its rows.
  MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &control_));
  MPI_CHECK(MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN));
  for (MPI_Comm& traffic : traffic_) {
    MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &traffic));
    MPI_CHECK(MPI_Comm_set_errhandler(traffic, MPI_ERRORS_RETURN));
  }
  MPI_CHECK(MPI_Comm_rank(control_, &rank_));
  MPI_CHECK(MPI_Comm_size(control_, &size_));
  notices_ = std::make_unique<Notices>(control_);
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split_type(control_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine));
  MPI_CHECK(MPI_Comm_rank(machine, &local_rank_));
  MPI_CHECK(MPI_Comm_size(machine, &local_size_));
  MeasureClockOffset(machine);
  ShareCores(machine);
  MPI_CHECK(MPI_Comm_free(&machine));
  host_ids_ = Gather(HostId(), "starting: naming hosts");
}

Ranks::Ranks(const RankPlace& posed, Progress& progress, int hosts)
    : timeout_(std::chrono::milliseconds(0)),
      progress_(progress),
      host_ids_(posed.size),
      rank_(posed.rank),
      size_(posed.size) {
  for (int rank = 0; rank < size_; ++rank)
    host_ids_[rank] = std::to_string(std::int64_t{rank} * hosts / size_);
}

Ranks::~Ranks() {
  if (control_ == MPI_COMM_NULL) return;  // poses only
  const Progress::Scope scope(progress_, Phase::kEnd);
  for (MPI_Comm& traffic : traffic_) MPI_Comm_free(&traffic);
  MPI_Comm_free(&control_);
  if (ends_mpi_) MPI_Finalize();
}

void RequireMpiFrom(const RankPlace& place) {
  if (!place.lacks_mpi) return;
  throw Error(fmt::format(
      "started as rank {} of {}, but this launcher does not start MPI; with srun try --mpi=pmix "
      "(srun --mpi=list lists the choices)",
      place.rank, place.size));
}

void RequireStartedBy(const RankPlace& place, const Ranks& ranks) {
  if (ranks.size() == 1) RequireMpiFrom({place.rank, place.size, place.size > 1});
}

std::string Ranks::LibraryVersion() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string whole = text.data();
  return whole.substr(0, whole.find(','));
}

std::string Ranks::HostName() {
  utsname names{};
  uname(&names);
  return names.nodename;
}

std::string Ranks::HostId() {
  const char* id = std::getenv("NCCL_HOSTID");
  return id != nullptr && *id != '\0' ? id : HostName();
}

int Ranks::hosts() const {
  return static_cast<int>(std::set<std::string>(host_ids_.begin(), host_ids_.end()).size());
}

std::string Ranks::Prefix() const { return size_ > 1 ? fmt::format("rank {}: ", rank_) : ""; }

bool Ranks::EndsInTime(MPI_Request& request, const std::shared_ptr<const void>& memory,
                       const std::function<void()>& look) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout();
  int done = 0;
  const std::shared_ptr<void> at_return(nullptr, [&](void*) {
    if (done != 0) return;
    has_given_up_ = true;
    KeepForMpi(memory);
  });
  for (;;) {
    MPI_CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done != 0) return true;
    ThrowIfEnding();
    look();
    if (std::chrono::steady_clock::now() > deadline) return false;
    sched_yield();
  }
}

void Ranks::Await(MPI_Request& request, const std::string& what,
                  const std::shared_ptr<const void>& memory) const {
  if (EndsInTime(request, memory, [] {})) return;
  throw FatalError(
      fmt::format("{}{}: the other ranks did not arrive within {}; one of them has stopped or is "
                  "doing something else",
                  Prefix(), what, InSeconds(timeout())));
}

// Asks at half of the timeout, so that the others have the other half to answer. Most waits end
// before, and send nothing.
void Ranks::Meet(MPI_Request& request, const std::string& what,
                 const std::shared_ptr<const void>& memory) {
  const std::int64_t meeting = meetings_++;
  const auto half = std::chrono::steady_clock::now() + timeout() / 2;
  bool has_asked = false;
  const auto look = [&] {
    notices_->AnswerQuestions();
    if (has_asked || std::chrono::steady_clock::now() < half) return;
    notices_->Ask(meeting);
    has_asked = true;
  };
  if (EndsInTime(request, memory, look)) return;
  throw FatalError(Prefix() + what + ": " + Missing(notices_->Silent(meeting), timeout()));
}

void Ranks::Barrier(const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Ibarrier(control_, &request));
  Meet(request, what, nullptr);
}

void Ranks::Max(std::span<double> values, const std::string& what) {
  const auto lent = Lend(values);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallreduce(MPI_IN_PLACE, lent->data(), static_cast<int>(lent->size()), MPI_DOUBLE,
                           MPI_MAX, control_, &request));
  Meet(request, what, lent);
  std::ranges::copy(*lent, values.begin());
}

double Ranks::Max(double value, const std::string& what) {
  Max({&value, 1}, what);
  return value;
}

std::vector<std::string> Ranks::Gather(const std::string& text, const std::string& what) {
  const auto lent = std::make_shared<std::vector<char>>(kTextBytes * size_);
  std::ranges::copy(Notices::Cut(text), lent->data() + kTextBytes * rank_);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallgather(MPI_IN_PLACE, kTextBytes, MPI_CHAR, lent->data(), kTextBytes, MPI_CHAR,
                           control_, &request));
  Meet(request, what, lent);
  std::vector<std::string> texts;
  for (int rank = 0; rank < size_; ++rank) texts.emplace_back(lent->data() + rank * kTextBytes);
  return texts;
}

std::vector<double> Ranks::GatherNumbers(std::span<const double> numbers, const std::string& what) {
  const std::size_t count = numbers.size();
  const auto lent = std::make_shared<std::vector<double>>(count * size_);
  std::ranges::copy(numbers, lent->data() + count * rank_);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallgather(MPI_IN_PLACE, static_cast<int>(count), MPI_DOUBLE, lent->data(),
                           static_cast<int>(count), MPI_DOUBLE, control_, &request));
  Meet(request, what, lent);
  return std::move(*lent);
}

std::vector<std::string> Ranks::GatherIfAny(const std::string& text, const std::string& what) {
  return Any(!text.empty(), what) ? Gather(text, what) : std::vector<std::string>();
}

bool Ranks::IsSameOnAll(const std::string& text, const std::string& what) {
  const auto hash = static_cast<double>(std::hash<std::string>()(text));
  std::array range = {hash, -hash};
  Max(range, what);
  return range[0] == -range[1];
}

void Ranks::Broadcast(std::span<std::byte> bytes, const std::string& what) {
  const auto lent = Lend(bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(
      MPI_Ibcast(lent->data(), static_cast<int>(lent->size()), MPI_BYTE, 0, control_, &request));
  Meet(request, what, lent);
  std::ranges::copy(*lent, bytes.begin());
}

void Ranks::AgreeOnError(const std::string& local_error, const std::string& what) {
  const std::int64_t step = step_++;
  if (!local_error.empty()) notices_->SendFailure(step);
  const auto errors = GatherIfAny(local_error, what);
  if (!errors.empty()) throw AgreedError(CombineErrors(errors));
}

void Ranks::Together(const std::string& what, const std::function<void()>& action) {
  std::string error;
  try {
    action();
  } catch (const FatalError&) {
    throw;
  } catch (const AgreedError&) {
    throw;  // from an agreement inside `action`, on all ranks
  } catch (const OthersFailed&) {
    error.clear();  // the others say why
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  AgreeOnError(error, what);
}

void Ranks::ThrowIfOthersFailed() {
  ThrowIfEnding();
  if (notices_->failed_step() == step_) throw OthersFailed();
}

void Ranks::AgreeOnEntry(const std::string& benchmark, std::int64_t iterations,
                         const std::string& settings) {
  const std::string mine = Notices::Cut(fmt::format("{} ({} iterations{}{})", benchmark, iterations,
                                                    settings.empty() ? "" : ", ", settings));
  const std::string what = "agreeing on the next benchmark, " + mine;
  std::array<char, kTextBytes> roots{};
  std::ranges::copy(mine, roots.begin());
  Broadcast(std::as_writable_bytes(std::span(roots)), what);
  const auto others = GatherIfAny(mine == roots.data() ? "" : mine, what);
  const auto other = std::ranges::find_if(others, [](const auto& text) { return !text.empty(); });
  if (other == others.end()) return;
  throw FatalError(fmt::format("the ranks have diverged: rank 0 is at {}, rank {} at {}; start all "
                               "ranks with the same flags and environment",
                               roots.data(), other - others.begin(), *other),
                   FatalError::kKnownToAll);
}

void Ranks::TellOthers(const std::string& reason) { notices_->SendEnding(reason); }

void Ranks::ThrowIfEnding() const {
  if (!notices_->Receive()) return;
  has_thrown_ending_ = true;
  throw FatalError(notices_->ending(), FatalError::kPrinted);
}

std::string Ranks::LastWords() const {
  if (size_ == 1 || has_thrown_ending_) return "";
  const auto deadline = std::chrono::steady_clock::now() + kLastWordsPatience;
  while (!notices_->Receive() && std::chrono::steady_clock::now() < deadline) {
  }
  return notices_->ending();
}

std::string Ranks::RollCall() {
  if (size_ == 1) return "";
  const auto deadline = std::chrono::steady_clock::now() + kRollCallPatience;
  if (is_root()) notices_->Ask(Notices::kRollCall);
  std::vector<int> silent;
  do {
    notices_->Receive();
    silent = notices_->Silent(Notices::kRollCall);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (!silent.empty() && std::chrono::steady_clock::now() < deadline);
  if (!is_root()) return "";
  if (silent.empty()) return "; all ranks answered";
  return fmt::format("; {} did not answer within {}", NameRanks(silent),
                     InSeconds(kRollCallPatience));
}

// The ranks of a machine share its clock. Its first rank compares it with rank 0's.
void Ranks::MeasureClockOffset(MPI_Comm machine) {
  MPI_Comm first_ranks = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split(control_, local_rank_ == 0 ? 0 : MPI_UNDEFINED, rank_, &first_ranks));
  if (first_ranks != MPI_COMM_NULL) {
    clock_offset_ms_ = ClockOffsetMs(*this, first_ranks, NowMs);
    MPI_CHECK(MPI_Comm_free(&first_ranks));
  }
  const auto lent = std::make_shared<double>(clock_offset_ms_);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Ibcast(lent.get(), 1, MPI_DOUBLE, 0, machine, &request));
  Await(request, "starting: sharing the machine's clock", lent);
  clock_offset_ms_ = *lent;
}

// A core that several ranks may use counts for each of them as its part of it.
void Ranks::ShareCores(MPI_Comm machine) {
  const std::set<int> allowed = AllowedCores();
  const auto count = std::make_shared<int>(allowed.empty() ? 0 : *allowed.rbegin() + 1);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallreduce(MPI_IN_PLACE, count.get(), 1, MPI_INT, MPI_MAX, machine, &request));
  Await(request, "starting: sharing the machine's cores", count);
  const auto users = std::make_shared<std::vector<int>>(*count);
  for (const int core : allowed) users->at(core) = 1;
  MPI_CHECK(
      MPI_Iallreduce(MPI_IN_PLACE, users->data(), *count, MPI_INT, MPI_SUM, machine, &request));
  Await(request, "starting: sharing the machine's cores", users);
  cores_ = 0;
  for (const int core : allowed) cores_ += 1.0 / users->at(core);
  if (const auto quota = CoreQuota()) cores_ = std::min(cores_, *quota / local_size_);
}

void Ranks::Add(Link& link) {
  const std::lock_guard lock(links_mutex_);
  links_.push_back(&link);
}

void Ranks::Remove(Link& link) {
  const std::lock_guard lock(links_mutex_);
  std::erase(links_, &link);
}

void Ranks::CheckLinks() const {
  ThrowIfEnding();
  const std::lock_guard lock(links_mutex_);
  for (Link* link : links_) {
    const std::string fault = link->Fault();
    if (!fault.empty()) throw FatalError(Prefix() + fault);
  }
}

void Ranks::AbortLinks() {
  const std::lock_guard lock(links_mutex_);
  for (Link* link : links_) link->Abort();
}

namespace {

constexpr int kExchanges = 20;

constexpr const char* kComparing = "starting: comparing clocks";

void SendTime(const Ranks& ranks, MPI_Comm comm, int peer, double time_ms) {
  const auto lent = std::make_shared<double>(time_ms);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Isend(lent.get(), 1, MPI_DOUBLE, peer, kClockTag, comm, &request));
  ranks.Await(request, kComparing, lent);
}

double ReceiveTime(const Ranks& ranks, MPI_Comm comm, int peer) {
  const auto lent = std::make_shared<double>();
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Irecv(lent.get(), 1, MPI_DOUBLE, peer, kClockTag, comm, &request));
  ranks.Await(request, kComparing, lent);
  return *lent;
}

void Answer(const Ranks& ranks, MPI_Comm comm, int peer, const std::function<double()>& now_ms) {
  for (int i = 0; i < kExchanges; ++i) {
    [[maybe_unused]] const double asked_ms = ReceiveTime(ranks, comm, peer);
    SendTime(ranks, comm, peer, now_ms());
  }
}

double Ask(const Ranks& ranks, MPI_Comm comm, const std::function<double()>& now_ms) {
  double quickest_ms = 1e30;
  double offset_ms = 0;
  for (int i = 0; i < kExchanges; ++i) {
    const double asked_ms = now_ms();
    SendTime(ranks, comm, 0, asked_ms);
    const double time_ms = ReceiveTime(ranks, comm, 0);
    const double answered_ms = now_ms();
    if (answered_ms - asked_ms >= quickest_ms) continue;
    quickest_ms = answered_ms - asked_ms;
    offset_ms = time_ms - (asked_ms + answered_ms) / 2;
  }
  return offset_ms;
}

}  // namespace

double NowMs() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double ClockOffsetMs(const Ranks& ranks, MPI_Comm comm, const std::function<double()>& now_ms) {
  int own = 0;
  int size = 0;
  MPI_CHECK(MPI_Comm_rank(comm, &own));
  MPI_CHECK(MPI_Comm_size(comm, &size));
  if (own > 0) return Ask(ranks, comm, now_ms);
  for (int peer = 1; peer < size; ++peer) Answer(ranks, comm, peer, now_ms);
  return 0;
}

}  // namespace overlapbench

// The C functions. They read their arguments, call Measuring, and turn exceptions into a status and
// this thread's message.
#include "interface/overlapbench.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "interface/measuring.h"
#include "report/json.h"

struct overlapbench_suite {
  explicit overlapbench_suite(const std::vector<std::string>& flags) : measuring(flags) {}
  overlapbench::Measuring measuring;
  std::string result;
};

namespace {

using overlapbench::Callable;
using overlapbench::UserRow;
using overlapbench::UserStep;
using overlapbench::WorkClass;

std::string& LastError() {
  thread_local std::string message;
  return message;
}

// A callback's text may have any bytes.
void Keep(const std::exception& error) { LastError() = overlapbench::ValidUtf8(error.what()); }

template <class Call>
int32_t Guarded(const Call& call) noexcept {
  try {
    call();
    return OVERLAPBENCH_MEASURING_OK;
  } catch (const overlapbench::UsageError& error) {
    Keep(error);
    return OVERLAPBENCH_MEASURING_REFUSED;
  } catch (const std::exception& error) {
    Keep(error);
    return OVERLAPBENCH_MEASURING_FAILED;
  }
}

template <class Item>
std::span<const Item> ListOf(const Item* items, int64_t count) {
  if (count < 0 || (count > 0 && items == nullptr))
    throw overlapbench::UsageError("a list is null, or its length is negative");
  return {items, static_cast<std::size_t>(count)};
}

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

std::vector<std::string> TextsOf(const char* const* texts, int64_t count) {
  std::vector<std::string> made;
  for (const char* text : ListOf(texts, count)) made.push_back(TextOf(text));
  return made;
}

WorkClass ClassOf(int32_t work_class) {
  switch (work_class) {
    case OVERLAPBENCH_COMP:
      return WorkClass::kCompute;
    case OVERLAPBENCH_COMM:
      return WorkClass::kComm;
    case OVERLAPBENCH_MEM:
      return WorkClass::kMemory;
    default:
      throw overlapbench::UsageError(fmt::format("there is no class of work {}", work_class));
  }
}

Callable CallableOf(const overlapbench_work& work) {
  return {.name = TextOf(work.name),
          .work_class = ClassOf(work.work_class),
          .waits = work.waits != 0,
          .callbacks = work.callbacks,
          .context = work.context};
}

UserStep StepOf(const overlapbench_step& step) {
  UserStep made{.lane = TextOf(step.lane),
                .name = TextOf(step.name),
                .work = static_cast<std::size_t>(step.work),
                .after = {}};
  for (const int64_t after : ListOf(step.after, step.after_count))
    made.after.push_back(static_cast<std::size_t>(after));
  return made;
}

UserRow RowOf(const overlapbench_row& row) {
  UserRow made{.kind = static_cast<overlapbench_kind>(row.kind),
               .name = TextOf(row.name),
               .works = {},
               .steps = {},
               .labels = {},
               .axes = {},
               .nothing = {}};
  for (const auto& work : ListOf(row.works, row.work_count)) made.works.push_back(CallableOf(work));
  for (const auto& step : ListOf(row.steps, row.step_count)) made.steps.push_back(StepOf(step));
  for (const char* label : ListOf(row.labels, row.label_count))
    made.labels.push_back(overlapbench::ParseAxisFlag(TextOf(label)));
  for (const char* axis : ListOf(row.axes, row.axis_count))
    made.axes.push_back(overlapbench::ParseAxisFlag(TextOf(axis)));
  made.nothing.name = "nothing";
  made.nothing.callbacks.enqueue = row.nothing;
  made.nothing.context = row.nothing_context;
  made.nothing.waits = std::ranges::any_of(made.works, &Callable::waits);
  return made;
}

}  // namespace

int32_t overlapbench_open(int64_t count, const char* const* flags, overlapbench_suite** suite) {
  return Guarded([&] { *suite = new overlapbench_suite(TextsOf(flags, count)); });
}

int32_t overlapbench_configure(overlapbench_suite* suite, int64_t count, const char* const* flags) {
  return Guarded([&] { suite->measuring.Configure(TextsOf(flags, count)); });
}

int32_t overlapbench_interrupt_with(overlapbench_suite* suite, int32_t signal) {
  return Guarded([&] { suite->measuring.InterruptWith(signal); });
}

int32_t overlapbench_where(overlapbench_suite* suite, overlapbench_place* place) {
  return Guarded([&] { *place = suite->measuring.place(); });
}

int32_t overlapbench_broadcast(overlapbench_suite* suite, void* data, int64_t bytes) {
  return Guarded([&] {
    // MPI's counts are of this type.
    if (bytes < 0 || !std::in_range<int>(bytes) || (bytes > 0 && data == nullptr))
      throw overlapbench::UsageError(fmt::format("a broadcast takes 0 to {} bytes of memory",
                                                 std::numeric_limits<int>::max()));
    suite->measuring.ranks().Broadcast(
        {static_cast<std::byte*>(data), static_cast<std::size_t>(bytes)},
        "broadcasting from rank 0");
  });
}

int32_t overlapbench_measure(overlapbench_suite* suite, const overlapbench_row* row) {
  return Guarded([&] { suite->result = suite->measuring.Measure(RowOf(*row)); });
}

int32_t overlapbench_measure_own(overlapbench_suite* suite, const char* name) {
  return Guarded([&] { suite->result = suite->measuring.Measure(TextOf(name)); });
}

const char* overlapbench_result(overlapbench_suite* suite) { return suite->result.c_str(); }

const char* overlapbench_samples(overlapbench_suite* suite) {
  return suite->measuring.samples().c_str();
}

const char* overlapbench_measuring_error(void) { return LastError().c_str(); }

void overlapbench_close(overlapbench_suite* suite) {
  // Ending MPI would wait for ranks that hang.
  if (suite != nullptr && suite->measuring.ended().empty()) delete suite;
}

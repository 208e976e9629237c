// --benchmark_format=csv: all rows of a run as one table, with a column for each counter that
// occurs in any of them. It can only be written once all rows are known.
#pragma once

#include <string>
#include <vector>

#include "fixtures/row.h"
#include "report/counters.h"
#include "report/value.h"

namespace overlapbench {

std::string Csv(const CounterTable& table, const std::vector<Row>& rows, const TimeUnit& unit);

}  // namespace overlapbench

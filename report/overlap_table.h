// The tables at the end of a run, fitted to the screen: lines are broken between words.
//
// Overlap rows that differ only in their grid share a table: grid, C, M, T, slowdown, efficiency,
// as in the report on GPU overlap. The other overlap rows share a table of pairs.
#pragma once

#include <string>
#include <vector>

#include "fixtures/row.h"
#include "report/screen.h"
#include "report/value.h"

namespace overlapbench {

// "" if there is no overlap row.
std::string OverlapTables(const std::vector<Row>& rows, const Screen& screen = {},
                          const TimeUnit& unit = {});

}  // namespace overlapbench

// The tables at the end of a run, at most 100 columns wide.
//
// Overlap rows that differ only in their grid make one table in the form of the report on GPU
// overlap (grid, C, M, T, slowdown, efficiency); the other overlap rows make one table of pairs.
#pragma once

#include <string>
#include <vector>

#include "report/row.h"

namespace overlapbench {

// "" when there is no overlap row.
std::string OverlapTables(const std::vector<Row>& rows);

}  // namespace overlapbench

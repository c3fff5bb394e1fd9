/// The machine's speed may change between two processes: this finds by how much.
#pragma once

#include <optional>

#include "reports/record.h"

namespace stbench::reports {

/// How many times as long the second process took for what no change of this project moves: LibTorch's
/// copies, and its methods on its own tables. The median over the cases; nothing if there is none.
/// @throws ReportError if a report has a case twice
std::optional<double> machine_change(const Report& first, const Report& second);

}  // namespace stbench::reports

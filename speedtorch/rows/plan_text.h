/// A plan of row movements as text: one `key: value` a line, blank lines and those that begin with '#' free.
///
///     thread_bytes: 196608
///     copy.huge_pages: ahead
///     gather.large_from: 8388608
///     gather.small.1: cached l2 128 1
///     gather.whole_lines.512: streaming l2 512 1 2
///
/// Contiguous copies are `plain`, `ahead` or `pages` (kernels::CopyWay). A choice is the stores (`cached`,
/// `streaming`, `staged`), where prefetched lines wait (`l1` or `l2`), how many lines ahead they are asked
/// for, one in how many lines of a long row (0: all of them, between the stores of an earlier row), and how
/// many times as far ahead the first line of a row is; that number may be left out where it is 0. Its key
/// ends with the narrowest row of its class of widths, in bytes (kernels::kWidthClasses). No LibTorch.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "speedtorch/kernels/rows/plan.h"

namespace speedtorch {

/// Keys and values, in the order of a file.
using PlanEntries = std::vector<std::pair<std::string, std::string>>;

PlanEntries plan_entries(const kernels::Plan& plan);
/// @throws kernels' RowPlanError naming the key that is missing, unknown, given twice or of a bad value
kernels::Plan plan_of(const PlanEntries& entries);

std::string to_text(const PlanEntries& entries);
/// @param name what the message of an error calls the text
/// @throws RowPlanError naming the line that is no `key: value`
PlanEntries parse_entries(std::string_view text, const std::string& name);

}  // namespace speedtorch

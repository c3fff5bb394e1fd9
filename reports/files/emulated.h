/// Reports that were made on an emulated GPU (tests/emulated_gpu): its rows are checked, and nothing is
/// timed.
#pragma once

#include <string>

#include "reports/record.h"

namespace stbench::reports {

/// The reason of a row that was checked on an emulated GPU.
inline constexpr std::string_view emulated_reason = "emulated GPU: not timed";

/// Takes all that was timed out of a record: its samples, medians and, among its further columns, times and
/// rates (`..._s`). One that has numbers is `ok` then, with that reason.
void forget_times(Record& record);

/// Returns true for a row that should have a time and has none. Rows of the memory suite and those that were
/// checked on an emulated GPU have no times.
bool lacks_time(const Record& record);

/// What a reader says of `median_s` in such a row.
inline constexpr std::string_view lacks_time_text =
    "a row that was measured needs a time; only reason \"emulated GPU: not timed\" would be right without "
    "one";

/// Whether the report says that its GPU was emulated. A CSV report says so in its rows.
bool is_emulated(const Report& report);

/// @throws ReportError naming `path` for a report of an emulated GPU
void require_timed(const Report& report, const std::string& path);

}  // namespace stbench::reports

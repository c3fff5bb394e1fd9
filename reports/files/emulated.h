/// Reports that were made on an emulated GPU (tests/emulated_gpu): its rows are checked, and nothing is
/// timed.
#pragma once

#include <string>

#include "reports/record.h"

namespace stbench::reports {

/// The reason of a row that was checked on an emulated GPU.
inline constexpr std::string_view emulated_reason = "emulated GPU: not timed";

/// Removes all times from a record: samples, medians and, among the further columns, times and rates
/// (`..._s`). A record with numbers is then `ok`, with that reason.
void forget_times(Record& record);

/// Returns true if a row lacks a time that it should have. Rows of the memory suite and of an emulated GPU
/// should have none.
bool lacks_time(const Record& record);

/// A reader's message on `median_s` in such a row.
inline constexpr std::string_view lacks_time_text =
    "a row that was measured needs a time; only reason \"emulated GPU: not timed\" would be right without "
    "one";

/// True if the report's GPU was emulated. A CSV report says so in its rows.
bool is_emulated(const Report& report);

/// @throws ReportError naming `path` for a report of an emulated GPU
void require_timed(const Report& report, const std::string& path);

}  // namespace stbench::reports

/// The record: what a report says of one case, and the report around it (schema 1, docs/schema.md).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace stbench::reports {

/// `ok`; `unstable` (the number stays, `reason` says why it is doubted); `waived` (not measured here,
/// `reason` has the cause and the cure); `wrong` (a check failed: no number); `failed` (an error or a
/// time-out: no number).
enum class Status { ok, unstable, waived, wrong, failed };

std::string_view to_string(Status status);
/// @throws ReportError for a text that is no status.
Status status_from(std::string_view text);
/// The one of the two that is further from `ok`, in the order of the enumeration.
Status worse(Status a, Status b);
/// True for `ok` and `unstable`: a row of any other status has no time and nothing derived from one.
bool has_numbers(Status status);

/// A cell of the table: empty (null), integer, real or text.
using Value = std::variant<std::monostate, std::int64_t, double, std::string>;
/// Named cells, in column order.
using Columns = std::vector<std::pair<std::string, Value>>;
/// The cell of that name, or null.
const Value* find(const Columns& columns, std::string_view name);

/// Sets the cell of that name, or adds it as the last.
void set(Columns& columns, std::string_view name, Value value);

/// The key of a case: the first twelve columns, and the suite's further axes.
struct Identity {
  std::string suite;
  std::string direction;
  std::string placement;
  std::string method;
  std::string device;
  std::string dtype;         ///< element type, or "bytes" if `dim` counts bytes
  std::string index_dtype;   ///< "int32" or "int64"
  std::string distribution;  ///< of the indices
  std::int64_t rows = 0;     ///< of the table
  std::int64_t dim = 0;      ///< elements per row
  std::int64_t batch = 0;    ///< rows per operation
  std::int64_t cores = 0;
  Columns axes;  ///< in the order of the report's `axes`; one that does not apply is left out

  bool operator==(const Identity&) const = default;
  /// True if the two differ in nothing but `method`: they are compared with each other.
  [[nodiscard]] bool same_cell(const Identity& other) const;
};

/// One row of a report. A number that was not measured is absent, never NaN.
struct Record {
  Identity id;
  Status status = Status::ok;
  std::string reason;  ///< one line; empty if the status is `ok`, except for reports/files/emulated.h

  std::int64_t samples = 0;       ///< timed runs (0 for a sum of two medians, and if nothing was measured)
  std::vector<double> samples_s;  ///< all of them, in order; JSON only
  std::optional<double> median_s, ci_low_s, ci_high_s, min_s, p05_s, p95_s;

  std::int64_t payload_bytes = 0;  ///< rows moved × row bytes
  std::int64_t index_bytes = 0;
  std::optional<double> gb_per_s;       ///< payload over median, GB = 10^9 bytes
  std::optional<double> copy_fraction;  ///< against the ceiling of the same cell, measured in the same run
  std::optional<double> speedup;        ///< against the fastest LibTorch method of the same cell

  std::int64_t verified_rows = 0;
  std::int64_t mismatches = 0;
  Columns more;  ///< plain columns of the suite, after the axes
};

/// The record of a case that has no numbers, and the reason in one line.
Record unmeasured(const Identity& id, Status status, std::string_view reason);

/// One run's report: what JSON holds whole and CSV holds the rows of.
struct Report {
  std::string schema_version = "1.6";
  std::string program;            ///< name and version
  std::vector<std::string> argv;  ///< as given; paths as base names
  std::uint64_t seed = 0;
  std::string started_at;                                                 ///< ISO 8601, UTC
  nlohmann::ordered_json environment = nlohmann::ordered_json::object();  ///< an object of objects
  std::vector<std::string> warnings;
  std::vector<std::string> axes;  ///< names of the columns after `mismatches` that are part of the identity
  bool interrupted = false;
  std::vector<Record> records;
};

}  // namespace stbench::reports

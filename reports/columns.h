/// The columns of a report: the one list that CSV, JSON and the tables go by.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record.h"

namespace stbench::reports {

enum class Kind { text, integer, real };

/// One column of the schema: how a record's field becomes a cell and a cell the field.
struct Column {
  std::string_view name;
  Kind kind;
  Value (*get)(const Record&);
  /// @throws ReportError if the cell does not fit the field: what it is, and what would be right (no
  /// place).
  void (*set)(Record&, const Value&);
};

/// The fixed columns in the order of the schema: twelve of the identity, then the measures.
std::span<const Column> fixed_columns();
/// The first twelve, without the suite's further axes.
std::span<const Column> identity_columns();

/// Columns after the fixed ones that are known to be axes (CSV does not say which are), by name, with their
/// defaults: if a case does not name an axis, this is meant.
const Columns& known_axes();
/// Makes an axis known. Suites do so before main; several may have the same axis.
/// @returns its default
/// @throws std::logic_error if it is known with another default
const Value& know_axis(std::string_view name, const Value& standard);

/// The fixed column of that name, or null.
const Column* fixed_column(std::string_view name);

/// The columns that a report has after the fixed ones.
struct Layout {
  std::vector<std::string> axes;  ///< of the report, in its order
  std::vector<std::string> more;  ///< of the records, in the order in which they first appear
};

/// @throws ReportError if a name is empty, appears twice, or is an axis of a record and not of the report.
Layout layout_of(const Report& report);

/// The cell of that name with null for one that is absent or not finite.
Value cell_of(const Columns& columns, std::string_view name);

/// The cell of that name: of a fixed column, an axis or a plain column; null as above.
Value cell_of(const Record& record, std::string_view name);

/// The number of a cell, integer or real; nothing if it is none.
std::optional<double> number_of(const Value& value);
/// The number of that name; nothing if there is none.
std::optional<double> number_of(const Columns& columns, std::string_view name);

/// The case in words that group and tell apart: "name=value" of every part of the identity that is not in
/// `without`. Equal texts mean equal parts.
std::string identity_key(const Record& record, std::initializer_list<std::string_view> without);

/// The cell as plain text: empty for null, numbers as CSV writes them.
std::string cell_text(const Value& value);

}  // namespace stbench::reports

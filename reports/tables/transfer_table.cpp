#include "reports/tables/transfer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "reports/columns.h"
#include "reports/group.h"
#include "reports/tables/grid.h"
#include "reports/tables/notes.h"
#include "reports/tables/time_unit.h"

namespace stbench::reports {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kDirections = {{
    {"to", "table rows into the model tensor"},
    {"from", "the model tensor back into table rows"},
    {"sum", "to and from, their medians added"},
    {"round_trip", "fresh values from the model tensor into table rows, then to it again"},
    {"step", "a step of the optimizer"},
    {"both", "half of the rows to and the other half from, at once"},
    {"consume", "table rows into the model tensor, and one pass that reads them there"},
}};

std::size_t direction_rank(const Record& record) {
  std::size_t rank = 0;
  while (rank < kDirections.size() && kDirections.at(rank).first != record.id.direction) ++rank;
  return rank;
}

std::string title(const Record& record) {
  const std::size_t rank = direction_rank(record);
  const std::string meaning =
      rank < kDirections.size() ? fmt::format(": {}", kDirections.at(rank).second) : std::string();
  return fmt::format("{}{} ({})", record.id.direction, meaning, record.id.device);
}

/// "±1.2%": half of the interval, of the median.
std::string half_width(const Record& record) {
  if (!record.ci_low_s || !record.ci_high_s) return {};
  const double percent = 50 * (*record.ci_high_s - *record.ci_low_s) / *record.median_s;
  if (!std::isfinite(percent)) return {};
  return fmt::format("±{:.{}f}%", percent, percent < 9.95 ? 1 : 0);
}

std::string share(const std::optional<double>& fraction) {
  if (!fraction) return {};
  const double percent = 100 * *fraction;
  return fmt::format("{:.{}f}%", percent, percent < 0.95 ? 1 : 0);
}

GridCell against_libtorch(const Record& record) {
  if (is_ceiling(record)) {
    return {record.copy_fraction.value_or(0) >= 1 ? "the ceiling" : "", Paint::dim};
  }
  if (is_libtorch(record) && record.speedup == 1) return {"LibTorch's best", Paint::bold};
  return ratio_cell(record.speedup);
}

std::string instead_of_time(const Record& record) {
  if (record.status == Status::wrong) {
    return fmt::format("WRONG: {} of {} rows differ", grouped(record.mismatches),
                       grouped(record.verified_rows));
  }
  return record.status == Status::failed ? "failed" : "no time";
}

std::string time_cell(const std::optional<double>& time_s, const TimeUnit& unit) {
  return time_s ? unit.text(*time_s) : "";
}

std::vector<GridCell> row_cells(const Record& record, const TimeUnit& unit) {
  if (!has_numbers(record.status) || !record.median_s) {
    return {{who(record.id)}, {instead_of_time(record), Paint::bad}};
  }
  return {{who(record.id)},
          marked_cell(record, unit.text(*record.median_s)),
          {half_width(record)},
          {record.gb_per_s ? significant(*record.gb_per_s, 3) : ""},
          {share(record.copy_fraction)},
          against_libtorch(record),
          {grouped(record.verified_rows)},
          {time_cell(record.p05_s, unit)},
          {time_cell(record.p95_s, unit)},
          {record.samples > 0 ? grouped(record.samples) : ""}};
}

/// The position at which each placement first appears in the plan.
using PlacementOrder = std::vector<std::string>;

PlacementOrder order_of(const Rows& rows) {
  PlacementOrder order;
  for (const Record* row : rows) add_once(order, row->id.placement);
  return order;
}

Rows sorted_rows(Rows rows, const PlacementOrder& order) {
  const auto key = [&](const Record* row) {
    const double last = std::numeric_limits<double>::infinity();
    return std::pair(std::find(order.begin(), order.end(), row->id.placement), row->median_s.value_or(last));
  };
  std::ranges::stable_sort(rows, {}, key);
  return rows;
}

/// A sum is as doubtful as its parts, whose tables have the reasons.
bool is_worth_a_note(const Record& row) {
  return row.id.direction != "sum" || row.status != Status::unstable;
}

/// An empty grid of these columns; narrow screens lose the verified rows first.
Grid grid_of(const TimeUnit& unit) {
  return Grid({{"who", Align::left},
               {std::string(unit.name)},
               {"±", Align::right, 2},
               {"GB/s"},
               {"of ceiling", Align::right, 3},
               {"against LibTorch", Align::left, 1},
               {"verified rows", Align::right, need::little},
               {"p05", Align::right, need::wide},
               {"p95", Align::right, need::wide},
               {"samples", Align::right, need::wide}});
}

std::string one_table(const Rows& rows, const PlacementOrder& order, Style style) {
  const TimeUnit unit = time_unit(rows);
  Grid grid = grid_of(unit);
  auto blocks = group_by(rows, [](const Record& row) { return row.id.cores; });
  std::ranges::sort(blocks, {}, [](const Rows& block) { return block.front()->id.cores; });
  for (const Rows& block : blocks) {
    grid.add({{cores_text(block.front()->id.cores), Paint::dim}});
    for (const Record* row : sorted_rows(block, order)) grid.add(row_cells(*row, unit));
  }
  return lines_of(title(*rows.front()), 2, Paint::bold, style) +
         paragraph(workload_text(*rows.front()), 2, Paint::none, style) + grid.render(style) +
         reason_lines(those(rows, is_worth_a_note), style);
}

}  // namespace

std::string further_axes_text(const Identity& id) {
  std::string text;
  for (const auto& [name, value] : id.axes) {
    const Value* const usual = find(known_axes(), name);
    const bool told = usual != nullptr && *usual == value && name != "optimizer";
    if (!told) text += fmt::format(", {}={}", name, cell_text(value));
  }
  return text;
}

std::string workload_text(const Record& record) {
  const Identity& id = record.id;
  const std::string row = id.dtype == "bytes" ? fmt::format("rows of {} bytes", grouped(id.dim))
                                              : fmt::format("× {} {} rows", grouped(id.dim), id.dtype);
  const std::string payload =
      record.payload_bytes > 0 ? fmt::format(" ({})", bytes_text(record.payload_bytes)) : std::string();
  if (id.batch == 0) {
    return fmt::format("{} tensors of {} {}{}{}", grouped(id.rows), grouped(id.dim), id.dtype, payload,
                       further_axes_text(id));
  }
  return fmt::format("{} of {} {}{}, {} {} indices{}", grouped(id.batch), grouped(id.rows), row, payload,
                     id.distribution, id.index_dtype, further_axes_text(id));
}

std::string finished_rows(const Rows& rows, Style style) {
  const TimeUnit unit = time_unit(rows);
  Grid grid = grid_of(unit);
  for (const Record* row : sorted_rows(rows, order_of(rows))) grid.add(row_cells(*row, unit));
  return grid.render(style);
}

std::string transfer_tables(const Rows& rows, Style style) {
  const PlacementOrder order = order_of(rows);
  return sections(
      group_without(rows, {"direction", "placement", "method", "cores"}), [&](const Rows& workload) {
        auto tables = group_by(workload, [](const Record& row) { return row.id.direction; });
        std::ranges::stable_sort(tables, {},
                                 [](const Rows& table) { return direction_rank(*table.front()); });
        return sections(tables, [&](const Rows& table) { return one_table(table, order, style); });
      });
}

}  // namespace stbench::reports

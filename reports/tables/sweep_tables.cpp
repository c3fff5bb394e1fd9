#include "reports/tables/sweep_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <string_view>

#include "reports/columns.h"
#include "reports/group.h"
#include "reports/statistics/statistics.h"
#include "reports/tables/grid.h"
#include "reports/tables/notes.h"
#include "reports/tables/transfer_table.h"

namespace stbench::reports {
namespace {

constexpr std::size_t kSweep = 3;
constexpr double kMicrosecond = 1e-6;
constexpr std::string_view kOurs = "speedtorch";

std::optional<double> real(const Record& row, std::string_view name) { return number_of(row.more, name); }

std::optional<double> median_latency(const Record& row) { return real(row, "latency_p50_s"); }

/// The numbers of an axis that the rows have.
std::set<std::int64_t> numbers(const Rows& rows, std::int64_t Identity::*axis) {
  std::set<std::int64_t> seen;
  for (const Record* row : rows) seen.insert(row->id.*axis);
  return seen;
}

Rows sorted(Rows rows) {
  std::ranges::stable_sort(rows, {}, [](const Record* row) { return std::pair(row->id.dim, row->id.batch); });
  return rows;
}

bool is_trip(const Record& row) { return row.id.direction == "round_trip"; }

/// True for ours with a budget of multiprocessors: measured at one width, they would be columns with one
/// entry each.
bool is_variant(const Record& row) { return row.id.method.starts_with(std::string(kOurs) + "_"); }

/// Ours first, then LibTorch's and peers as they come, the ceilings last.
std::vector<std::string> methods_of(const Rows& rows) {
  std::vector<std::string> names;
  const auto add = [&](auto wanted) {
    for (const Record* row : those(rows, wanted)) add_once(names, row->id.method);
  };
  add([](const Record& row) { return row.id.method == kOurs; });
  add([&](const Record& row) { return !is_ceiling(row); });
  add(is_ceiling);
  return names;
}

const Record* of_method(const Rows& cell, std::string_view name) {
  const auto row = std::ranges::find(
      cell, name, [](const Record* r) -> auto& { return r->id.method; });
  return row == cell.end() ? nullptr : *row;
}

std::string title(const Rows& rows) {
  const Identity& id = rows.front()->id;
  return fmt::format("{} ({}), {}, {}, {} indices", id.direction, id.device, id.placement,
                     cores_text(id.cores), id.index_dtype);
}

std::string heading(const std::string& text, Style style) { return painted(text, Paint::bold, style) + "\n"; }

/// The values that all rows of the table share.
std::string width_workload(const Rows& rows) {
  std::int64_t most = 0;
  for (const Record* row : rows) most = std::max(most, row->id.rows * row->id.dim);
  const Identity& id = rows.front()->id;
  return fmt::format("{} {} rows of a table of {}{}", grouped(id.batch), id.distribution, bytes_text(most),
                     further_axes_text(id));
}

/// The rank of a method's column: a narrow screen loses the ceilings first, then peers, then LibTorch's.
Heading method_heading(const std::string& name, const Rows& rows) {
  const Record& row = **std::ranges::find(
      rows, name, [](const Record* r) -> auto& { return r->id.method; });
  const int dropped = name == kOurs ? need::always : is_ceiling(row) ? 3 : is_libtorch(row) ? 1 : 2;
  return {name, Align::right, dropped};
}

std::string left_out_lines(const Grid& grid, Style style) {
  const auto names = grid.left_out(style);
  if (names.empty()) return {};
  return paragraph(fmt::format("no room for {}", fmt::join(names, ", ")), 4, Paint::dim, style);
}

GridCell without_number(const Record& row) {
  return {row.status == Status::wrong ? "WRONG" : std::string(to_string(row.status)), Paint::bad};
}

GridCell speed_cell(const Record* row) {
  if (row == nullptr) return {};
  if (!row->gb_per_s) return without_number(*row);
  return marked_cell(*row, significant(*row->gb_per_s, 3));
}

std::string width_table(const Rows& rows, Style style) {
  const auto names = methods_of(rows);
  std::vector<Heading> headings = {{"row bytes"}};
  for (const auto& name : names) {
    headings.push_back(method_heading(name, rows));
    if (name == kOurs) headings.insert(headings.end(), {{"of ceiling"}, {"against LibTorch", Align::left}});
  }
  Grid grid(std::move(headings));
  for (const Rows& cell : group_by(sorted(rows), [](const Record& row) { return row.id.dim; })) {
    std::vector<GridCell> cells = {{grouped(cell.front()->id.dim)}};
    for (const auto& name : names) {
      const Record* const row = of_method(cell, name);
      cells.push_back(speed_cell(row));
      if (name != kOurs) continue;
      const bool share = row != nullptr && row->copy_fraction;
      cells.push_back({share ? fmt::format("{:.0f}%", 100 * *row->copy_fraction) : ""});
      cells.push_back(ratio_cell(row != nullptr ? row->speedup : std::nullopt));
    }
    grid.add(std::move(cells));
  }
  return heading("GB/s " + title(rows), style) + paragraph(width_workload(rows), 2, Paint::none, style) +
         grid.render(style) + left_out_lines(grid, style) + reason_lines(rows, style);
}

GridCell latency_ratio(const Rows& cell) {
  const Record* const ours = of_method(cell, kOurs);
  std::optional<double> best;
  for (const Record* row : those(cell, is_libtorch)) {
    const auto median = median_latency(*row);
    if (median && (!best || *median < *best)) best = median;
  }
  if (ours == nullptr || !median_latency(*ours) || !best) return {};
  return ratio_cell(speedup(*median_latency(*ours), *best));
}

/// "1.04 / 1.51": median and 99 %.
std::string latency_cell(const Record* row) {
  if (row == nullptr || !median_latency(*row)) return {};
  const auto last = real(*row, "latency_p99_s");
  return fmt::format("{} / {}", significant(*median_latency(*row) / kMicrosecond, 3),
                     last ? significant(*last / kMicrosecond, 3) : "?");
}

/// Bytes of a row, whatever its elements are.
std::int64_t row_bytes(const Record& row) {
  return row.id.dtype == "bytes" ? row.id.dim : row.payload_bytes / std::max<std::int64_t>(1, row.id.batch);
}

std::string latency_table(const Rows& rows, Style style) {
  const auto names = methods_of(rows);
  std::vector<Heading> headings = {{"row bytes"}, {"batch"}};
  for (const auto& name : names) headings.push_back(method_heading(name, rows));
  headings.push_back({"against LibTorch", Align::left});
  Grid grid(std::move(headings));
  const auto shape = [](const Record& row) { return std::pair(row.id.dim, row.id.batch); };
  for (const Rows& cell : group_by(sorted(rows), shape)) {
    std::vector<GridCell> cells = {{grouped(row_bytes(*cell.front()))}, {grouped(cell.front()->id.batch)}};
    for (const auto& name : names) cells.push_back({latency_cell(of_method(cell, name))});
    cells.push_back(latency_ratio(cell));
    grid.add(std::move(cells));
  }
  return heading("us " + title(rows), style) + grid.render(style) + left_out_lines(grid, style);
}

/// How many single operations the latencies are of, and what is in each.
std::string latency_note(const Rows& timed) {
  double runs = 0, clock = 0;
  for (const Record* row : timed) {
    runs = std::max(runs, real(*row, "latency_runs").value_or(0));
    clock = std::max(clock, real(*row, "latency_clock_s").value_or(0));
  }
  return fmt::format(
      "of up to {:.0f} single operations, warm, each with the reading of the clock ({:.0f} ns)", runs,
      clock * 1e9);
}

std::string trip_size(const Record& row) {
  return fmt::format("{} of {}×{}", row.id.batch == row.id.rows ? "all" : grouped(row.id.batch),
                     grouped(row.id.rows), grouped(row.id.dim));
}

std::vector<GridCell> trip_cells(const Record& row) {
  if (!has_numbers(row.status) || !row.median_s) return {{who(row.id)}, without_number(row)};
  const auto last = real(row, "latency_p99_s");
  const bool best = is_libtorch(row) && row.speedup == 1;
  return {{who(row.id)},
          marked_cell(row, grouped(std::llround(1 / *row.median_s))),
          {median_latency(row) ? significant(*median_latency(row) / kMicrosecond, 3) : ""},
          {last ? significant(*last / kMicrosecond, 3) : ""},
          best ? GridCell{"LibTorch's best", Paint::bold} : ratio_cell(row.speedup),
          is_ceiling(row) ? GridCell{} : ratio_cell(row.copy_fraction)};
}

/// LibTorch's plain copy is what the others are held against, not a limit: of a few rows none is one.
std::string trip_table(const Rows& rows, Style style) {
  Grid grid({{"who", Align::left},
             {"a second"},
             {"median us"},
             {"99 % us"},
             {"against LibTorch", Align::left, 1},
             {"against copy", Align::left, 2}});
  for (const Rows& size : group_by(sorted(rows), [](const Record& row) { return trip_size(row); })) {
    grid.add({{trip_size(*size.front()), Paint::dim}});
    for (const Record* row : size) grid.add(trip_cells(*row));
  }
  const Identity& id = rows.front()->id;
  return heading(fmt::format("{} ({}), {}, {}, {} indices{}", id.direction, id.device, id.dtype,
                             cores_text(id.cores), id.index_dtype, further_axes_text(id)),
                 style) +
         grid.render(style) + reason_lines(rows, style);
}

}  // namespace

std::string movement_tables(const Rows& rows, Style style) {
  const SweepRows split = split_sweeps(rows);
  return sections(std::vector{transfer_tables(split.others, style), width_tables(split.widths, style),
                              latency_tables(rows, style), reason_lines(split.batches, style),
                              round_trip_tables(split.trips, style)},
                  std::identity{});
}

SweepRows split_sweeps(const Rows& rows) {
  SweepRows split;
  Rows rest;
  for (const Rows& group :
       group_without(rows, {"direction", "placement", "method", "cores", "index_dtype", "rows", "batch"})) {
    const Rows single = those(group, median_latency);
    const bool sweep = numbers(single, &Identity::batch).size() >= kSweep;
    for (const Record* row : group) {
      // Cases timed in single runs, and those beside them: ceilings, and cases without a number.
      const bool beside = row->id.direction == "to" || row->id.direction == "from" || is_trip(*row);
      const bool small = sweep && beside &&
                         (median_latency(*row) || numbers(single, &Identity::batch).contains(row->id.batch));
      (!small ? rest : is_trip(*row) ? split.trips : split.batches).push_back(row);
    }
  }
  std::erase_if(rest, [&](const Record* row) {
    if (is_variant(*row)) split.others.push_back(row);
    return is_variant(*row);
  });
  for (const Rows& group :
       group_without(rest, {"direction", "placement", "method", "cores", "index_dtype", "rows", "dim"})) {
    const bool sweep = group.front()->id.dtype == "bytes" && numbers(group, &Identity::dim).size() >= kSweep;
    Rows& kind = sweep ? split.widths : split.others;
    kind.insert(kind.end(), group.begin(), group.end());
  }
  return split;
}

std::string width_tables(const Rows& rows, Style style) {
  return sections(group_without(rows, {"dim", "rows", "method"}),
                  [&](const Rows& table) { return width_table(table, style); });
}

std::string latency_tables(const Rows& rows, Style style) {
  const Rows timed =
      those(rows, [](const Record& row) { return median_latency(row) && !is_ceiling(row) && !is_trip(row); });
  if (timed.empty()) return {};
  std::string text = heading("Latency of small batches", style);
  text += paragraph("median / 99 % " + latency_note(timed), 2, Paint::none, style);
  for (const Rows& table : group_without(timed, {"dim", "rows", "batch", "method"}))
    text += "\n" + latency_table(table, style);
  return text;
}

std::string round_trip_tables(const Rows& rows, Style style) {
  const Rows trips = those(rows, is_trip);
  if (those(trips, median_latency).empty()) return {};
  std::string text =
      heading("Round trips of small tables", style) +
      paragraph("rows from the model tensor into the table and to it again; median and 99 % " +
                    latency_note(trips) + ". SpeedTorch's users asked for 100 a second and got 70.",
                2, Paint::none, style);
  for (const Rows& table : group_without(trips, {"placement", "dim", "rows", "batch", "method"}))
    text += "\n" + trip_table(table, style);
  return text;
}

}  // namespace stbench::reports

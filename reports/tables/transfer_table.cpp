#include "reports/tables/transfer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "reports/columns.h"
#include "reports/group.h"
#include "reports/tables/grid.h"
#include "reports/tables/notes.h"
#include "reports/tables/time_unit.h"

namespace stbench::reports {
namespace {

using Rows = std::vector<const Record*>;

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kDirections = {{
    {"to", "table rows into the model tensor"},
    {"from", "the model tensor back into table rows"},
    {"sum", "to and from, their medians added"},
    {"round_trip", "fresh values from the model tensor into table rows, then to it again"},
    {"step", "a step of the optimizer"},
    {"both", "half of the rows to and the other half from, at once"},
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
  if (!record.speedup) return {};
  if (is_libtorch(record) && *record.speedup == 1) return {"LibTorch's best", Paint::bold};
  return {faster_text(*record.speedup), *record.speedup >= 1 ? Paint::good : Paint::bad};
}

std::string instead_of_time(const Record& record) {
  if (record.status == Status::wrong) {
    return fmt::format("WRONG: {} of {} rows differ", grouped(record.mismatches),
                       grouped(record.verified_rows));
  }
  return record.status == Status::failed ? "failed" : "no time";
}

std::vector<GridCell> row_cells(const Record& record, const TimeUnit& unit) {
  if (!has_numbers(record.status) || !record.median_s) {
    return {{who(record.id)}, {instead_of_time(record), Paint::bad}};
  }
  const bool doubtful = record.status == Status::unstable;
  return {{who(record.id)},
          {fmt::format("{}{}", doubtful ? "~" : "", unit.text(*record.median_s)),
           doubtful ? Paint::doubtful : Paint::none},
          {half_width(record)},
          {record.gb_per_s ? significant(*record.gb_per_s, 3) : ""},
          {share(record.copy_fraction)},
          against_libtorch(record),
          {grouped(record.verified_rows)}};
}

/// Where each placement first appears in the plan.
using PlacementOrder = std::vector<std::string>;

PlacementOrder placement_order(const Rows& rows) {
  PlacementOrder order;
  for (const Record* row : rows) {
    if (std::find(order.begin(), order.end(), row->id.placement) == order.end())
      order.push_back(row->id.placement);
  }
  return order;
}

Rows sorted_rows(Rows rows, const PlacementOrder& order) {
  const auto key = [&](const Record* row) {
    const double last = std::numeric_limits<double>::infinity();
    return std::pair(std::find(order.begin(), order.end(), row->id.placement), row->median_s.value_or(last));
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Record* a, const Record* b) { return key(a) < key(b); });
  return rows;
}

/// A sum is as doubtful as its parts, whose tables have the reasons.
Rows worth_a_note(const Rows& rows) {
  Rows worth;
  for (const Record* row : rows) {
    if (row->id.direction != "sum" || row->status != Status::unstable) worth.push_back(row);
  }
  return worth;
}

std::string one_table(const Rows& rows, const PlacementOrder& order, Style style) {
  const TimeUnit unit = time_unit(rows);
  Grid grid({{"who", Align::left},
             {std::string(unit.name)},
             {"±"},
             {"GB/s"},
             {"of ceiling"},
             {"against LibTorch", Align::left},
             {"verified rows"}});
  auto blocks = group_by(rows, [](const Record& row) { return row.id.cores; });
  std::sort(blocks.begin(), blocks.end(),
            [](const Rows& a, const Rows& b) { return a.front()->id.cores < b.front()->id.cores; });
  for (const Rows& block : blocks) {
    grid.add({{cores_text(block.front()->id.cores), Paint::dim}});
    for (const Record* row : sorted_rows(block, order)) grid.add(row_cells(*row, unit));
  }
  std::string text;
  for (const std::string& line : wrapped(one_line(title(*rows.front())), kScreenWidth, 2)) {
    text += painted(line, Paint::bold, style) + "\n";
  }
  return text + paragraph(workload_text(*rows.front()), 2, Paint::none, style) + grid.render(style) +
         reason_lines(worth_a_note(rows), style);
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

std::string transfer_tables(const Rows& rows, Style style) {
  constexpr std::array<std::string_view, 4> kWithin = {"direction", "placement", "method", "cores"};
  const PlacementOrder order = placement_order(rows);
  std::string text;
  for (const Rows& workload : group_by(rows, [&](const Record& row) { return identity_key(row, kWithin); })) {
    auto tables = group_by(workload, [](const Record& row) { return row.id.direction; });
    std::stable_sort(tables.begin(), tables.end(), [](const Rows& a, const Rows& b) {
      return direction_rank(*a.front()) < direction_rank(*b.front());
    });
    for (const Rows& table : tables) {
      if (!text.empty()) text += '\n';
      text += one_table(table, order, style);
    }
  }
  return text;
}

}  // namespace stbench::reports

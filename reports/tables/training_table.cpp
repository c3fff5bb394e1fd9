#include "reports/tables/training_table.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>

#include "reports/columns.h"
#include "reports/group.h"
#include "reports/tables/grid.h"
#include "reports/tables/notes.h"
#include "reports/tables/time_unit.h"

namespace stbench::reports {
namespace {

std::optional<double> number(const Record& row, std::string_view name) { return number_of(row.more, name); }

std::string count(const std::optional<double>& value) {
  return value ? grouped(std::llround(*value)) : std::string();
}

std::string bytes(const std::optional<double>& value) {
  return value ? bytes_text(std::llround(*value)) : std::string();
}

/// The samples per second of the plain batch that fits, if it was measured.
std::optional<double> plain_speed(const Rows& rows) {
  for (const Record* row : rows) {
    if (row->id.method == "plain" && row->id.batch == row->id.rows) return number(*row, "samples_per_s");
  }
  return std::nullopt;
}

/// "0.98": samples per second, relative to the plain batch that fits.
GridCell against_plain(const Record& row, const std::optional<double>& plain) {
  const auto mine = number(row, "samples_per_s");
  if (!mine || !plain) return {};
  const double ratio = *mine / *plain;
  return {fmt::format("{:.2f}", ratio), ratio >= 1 ? Paint::good : Paint::none};
}

/// How many times as far from the exact gradients as the plain batch's.
std::string distance(const Record& row) {
  const auto mine = number(row, "gradient_difference"), plain = number(row, "plain_difference");
  return mine && plain && *plain > 0 ? fmt::format("{:.2f}", *mine / *plain) : std::string();
}

std::string why_not_trained(const Record& row) {
  if (row.status == Status::wrong) return "WRONG";
  if (row.status == Status::failed) return "failed";
  return row.reason.starts_with("out of memory") ? "out of memory" : "not measured";
}

std::vector<GridCell> cells_of(const Record& row, const TimeUnit& unit, const std::optional<double>& plain) {
  if (!has_numbers(row.status) || !row.median_s)
    return {{row.id.method},
            {why_not_trained(row), row.status == Status::waived ? Paint::doubtful : Paint::bad}};
  return {{row.id.method},
          {count(number(row, "micro_batch_samples"))},
          marked_cell(row, unit.text(*row.median_s)),
          {count(number(row, "samples_per_s"))},
          against_plain(row, plain),
          {bytes(number(row, "peak_bytes"))},
          {distance(row)}};
}

std::string axis(const Record& row, std::string_view name) { return cell_text(cell_of(row.id.axes, name)); }

std::string heading(const Rows& rows) {
  const Record& first = *rows.front();
  std::optional<double> cap;
  for (const Record* row : rows) cap = cap ? cap : number(*row, "cap_bytes");
  const auto under = cap ? fmt::format(" under a cap of {}", bytes(cap)) : std::string();
  return fmt::format("Training {} ({}, {}): a plain batch of {} fits{}", axis(first, "model"),
                     first.id.device, cores_text(first.id.cores), grouped(first.id.rows), under);
}

std::string block_title(const Record& row) {
  return fmt::format("batch {}, {} × what fits, micro-batch {}", grouped(row.id.batch),
                     significant(static_cast<double>(row.id.batch) / static_cast<double>(row.id.rows), 2),
                     axis(row, "micro_batch"));
}

std::string table_of_model(const Rows& rows, Style style) {
  const TimeUnit unit = time_unit(rows);
  const auto plain = plain_speed(rows);
  Grid grid({{"who", Align::left},
             {"at once", Align::right, 2},
             {std::string(unit.name)},
             {"samples/s"},
             {"of plain's"},
             {"peak memory", Align::right, 1},
             {"difference, of plain's", Align::right, 3}});
  const auto key = [](const Record& row) { return std::pair(row.id.batch, axis(row, "micro_batch")); };
  for (const Rows& block : group_by(rows, key)) {
    grid.add({{block_title(*block.front()), Paint::dim}});
    for (const Record* row : block) grid.add(cells_of(*row, unit, plain));
  }
  return lines_of(heading(rows), 2, Paint::bold, style) + grid.render(style) + reason_lines(rows, style);
}

}  // namespace

std::string training_tables(const Rows& rows, Style style) {
  return sections(group_without(rows, {"batch", "method", "micro_batch"}),
                  [&](const Rows& model) { return table_of_model(model, style); });
}

}  // namespace stbench::reports

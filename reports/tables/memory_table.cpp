#include "reports/tables/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <tuple>

#include "reports/group.h"
#include "reports/tables/grid.h"
#include "reports/tables/notes.h"

namespace stbench::reports {
namespace {

/// "The values are for holding a 10,000,000x128 float32 tensor", on Google Colab, give or take 0.30.
struct SpeedTorchRow {
  std::string_view method, placement, cpu, gpu;
};
constexpr std::array<SpeedTorchRow, 6> kSpeedTorch = {{{"speedtorch", "pinned", "9.93", "0.06"},
                                                       {"cupy", "pinned", "9.93", "0.06"},
                                                       {"libtorch", "pinned", "6.59", "0.32"},
                                                       {"speedtorch", "device", "0.39", "9.61"},
                                                       {"cupy", "device", "0.39", "9.61"},
                                                       {"libtorch", "device", "1.82", "5.09"}}};
constexpr std::string_view kPublished = " README: SpeedTorch's of 2019 for 10,000,000 × 128 float32.";

std::string legend(bool published) {
  return fmt::format(
      "CPU, GPU: what is in use with the table, by its process and on the device.{} / asked: what the table "
      "added, over its bytes. before, peak, freed: its process (or device) without it, at the most, and "
      "after it.",
      published ? kPublished : "");
}

/// Null for tables of other shapes than the published one.
const SpeedTorchRow* speedtorch_row_of(const Identity& id) {
  if (id.rows != 10'000'000 || id.dim != 128 || id.dtype != "float32") return nullptr;
  const auto* const row = std::ranges::find_if(kSpeedTorch, [&](const SpeedTorchRow& one) {
    return one.method == id.method && one.placement == id.placement;
  });
  return row == kSpeedTorch.end() ? nullptr : row;
}

/// GiB as SpeedTorch gave them: two decimals, three for small amounts.
std::string gib(const Record& record, std::string_view column) {
  const auto bytes = number_of(record.more, column);
  if (!bytes) return {};
  const double amount = *bytes / (std::int64_t{1} << 30);
  return fmt::format("{:.{}f}", amount, amount != 0 && amount < 0.0995 ? 3 : 2);
}

std::string overhead(const Record& record) {
  const auto ratio = number_of(record.more, "overhead_ratio");
  return ratio ? fmt::format("{:.4f}", *ratio) : "";
}

/// "speedtorch(mapped) 25%" where only so much of it was touched.
std::string name_of(const Identity& id) {
  const auto part = number_of(id.axes, "touched");
  if (!part || *part == 1) return who(id);
  return fmt::format("{} {:.3g}%", who(id), 100 * *part);
}

std::vector<GridCell> row_cells(const Record& record) {
  const SpeedTorchRow* const published = speedtorch_row_of(record.id);
  const std::string speedtorch_cpu(published == nullptr ? "" : published->cpu),
      speedtorch_gpu(published == nullptr ? "" : published->gpu);
  if (record.status == Status::waived) {
    std::vector<GridCell> cells{
        {name_of(record.id)}, {"-"}, {speedtorch_cpu, Paint::dim}, {"-"}, {speedtorch_gpu, Paint::dim}};
    cells.resize(10);  // the others are empty
    return cells;
  }
  if (!has_numbers(record.status)) {
    const bool wrong = record.status == Status::wrong;
    const auto text =
        fmt::format("WRONG: {} of {} rows differ", grouped(record.mismatches), grouped(record.verified_rows));
    return {{name_of(record.id)}, {wrong ? text : "failed", Paint::bad}};
  }
  return {{name_of(record.id)},
          marked_cell(record, gib(record, "resident_bytes")),
          {speedtorch_cpu, Paint::dim},
          {gib(record, "device_bytes")},
          {speedtorch_gpu, Paint::dim},
          {overhead(record)},
          {gib(record, "baseline_bytes")},
          {gib(record, "peak_bytes")},
          {gib(record, "after_free_bytes")},
          {gib(record, "page_table_bytes")}};
}

std::string shape_text(const Record& record) {
  const Identity& id = record.id;
  const std::string row = id.dtype == "bytes" ? fmt::format("rows of {} bytes", grouped(id.dim))
                                              : fmt::format("× {} {}", grouped(id.dim), id.dtype);
  const auto bytes = number_of(record.more, "requested_bytes");
  const std::string size =
      bytes ? fmt::format(" ({}, {} GiB)", bytes_text(std::llround(*bytes)), gib(record, "requested_bytes"))
            : std::string();
  return fmt::format("{} {}{}; GiB, each in a process of its own", grouped(id.rows), row, size);
}

/// The row that knows the most of the shape.
const Record& speaker(const Rows& rows) {
  const auto measured = std::ranges::find_if(
      rows, [](const Record* row) { return number_of(row->more, "requested_bytes").has_value(); });
  return measured == rows.end() ? *rows.front() : **measured;
}

bool is_published(const Record* row) { return speedtorch_row_of(row->id) != nullptr; }

std::string grid_of(const Rows& rows, Style style) {
  Grid grid({{"who", Align::left},
             {"CPU"},
             {"README"},
             {"GPU"},
             {"README"},
             {"/ asked", Align::right, 1},
             {"before", Align::right, 4},
             {"peak", Align::right, 2},
             {"freed", Align::right, 3},
             {"page tables", Align::right, 5}});
  for (const Record* row : rows) grid.add(row_cells(*row));
  return grid.render(style);
}

std::string table_of_shape(const Rows& rows, Style style) {
  return painted("memory: what holding a table costs", Paint::bold, style) + "\n" +
         paragraph(shape_text(speaker(rows)), 2, Paint::none, style) + grid_of(rows, style) +
         paragraph(legend(std::ranges::any_of(rows, is_published)), 2, Paint::dim, style) +
         reason_lines(rows, style);
}

}  // namespace

std::string finished_memory_rows(const Rows& rows, Style style) { return grid_of(rows, style); }

std::string memory_tables(const Rows& rows, Style style) {
  Rows shown = those(rows, [](const Record& row) {
    return row.status != Status::waived || speedtorch_row_of(row.id) != nullptr;
  });
  std::ranges::stable_partition(shown, [](const Record* row) { return row->status != Status::waived; });
  const auto shape = [](const Record& row) { return std::tuple(row.id.dtype, row.id.rows, row.id.dim); };
  return sections(group_by(shown, shape), [&](const Rows& alike) { return table_of_shape(alike, style); });
}

}  // namespace stbench::reports

#include "reports/tables/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>

#include "reports/group.h"
#include "reports/tables/grid.h"
#include "reports/tables/notes.h"

namespace stbench::reports {
namespace {

using Rows = std::vector<const Record*>;

/// "The values are for holding a 10,000,000x128 float32 tensor", on Google Colab, give or take 0.30.
struct SeedRow {
  std::string_view method, placement, cpu, gpu;
};
constexpr std::array<SeedRow, 6> kSeed = {{{"speedtorch", "pinned", "9.93", "0.06"},
                                           {"cupy", "pinned", "9.93", "0.06"},
                                           {"libtorch", "pinned", "6.59", "0.32"},
                                           {"speedtorch", "device", "0.39", "9.61"},
                                           {"cupy", "device", "0.39", "9.61"},
                                           {"libtorch", "device", "1.82", "5.09"}}};
constexpr std::string_view kMemoryLegend =
    "CPU, GPU: what is in use with the table, by its process and on the device. README: SpeedTorch's of 2019 "
    "for 10,000,000 × 128 float32. / asked: what the table added, over its bytes. before, peak, freed: its "
    "process (or device) without it, at the most, and after it.";

const SeedRow* seed_of(const Identity& id) {
  const auto* const row = std::find_if(kSeed.begin(), kSeed.end(), [&](const SeedRow& seed) {
    return seed.method == id.method && seed.placement == id.placement;
  });
  return row == kSeed.end() ? nullptr : row;
}

std::optional<std::int64_t> bytes_of(const Record& record, std::string_view column) {
  const Value* const value = find(record.more, column);
  const auto* const bytes = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return bytes == nullptr ? std::nullopt : std::optional(*bytes);
}

/// GiB as SpeedTorch gives them, to two places, small ones to three.
std::string gib(const Record& record, std::string_view column) {
  const auto bytes = bytes_of(record, column);
  if (!bytes) return {};
  const double amount = static_cast<double>(*bytes) / (std::int64_t{1} << 30);
  return fmt::format("{:.{}f}", amount, amount != 0 && amount < 0.0995 ? 3 : 2);
}

std::string ratio_cell(const Record& record) {
  const Value* const value = find(record.more, "overhead_ratio");
  const auto* const ratio = value == nullptr ? nullptr : std::get_if<double>(value);
  return ratio == nullptr ? "" : fmt::format("{:.4f}", *ratio);
}

/// "speedtorch(mapped) 25%" where only so much of it was touched.
std::string name_of(const Identity& id) {
  const Value* const touched = find(id.axes, "touched");
  const auto* const part = touched == nullptr ? nullptr : std::get_if<double>(touched);
  if (part == nullptr || *part == 1) return who(id);
  return fmt::format("{} {:.3g}%", who(id), 100 * *part);
}

std::vector<GridCell> row_cells(const Record& record) {
  const SeedRow* const seed = seed_of(record.id);
  const std::string seed_cpu(seed == nullptr ? "" : seed->cpu), seed_gpu(seed == nullptr ? "" : seed->gpu);
  if (record.status == Status::waived)
    return {{name_of(record.id)},
            {"-"},
            {seed_cpu, Paint::dim},
            {"-"},
            {seed_gpu, Paint::dim},
            {},
            {},
            {},
            {},
            {}};
  if (!has_numbers(record.status)) {
    const bool wrong = record.status == Status::wrong;
    const auto text =
        fmt::format("WRONG: {} of {} rows differ", grouped(record.mismatches), grouped(record.verified_rows));
    return {{name_of(record.id)}, {wrong ? text : "failed", Paint::bad}};
  }
  const bool doubtful = record.status == Status::unstable;
  return {{name_of(record.id)},
          {(doubtful ? "~" : "") + gib(record, "resident_bytes"), doubtful ? Paint::doubtful : Paint::none},
          {seed_cpu, Paint::dim},
          {gib(record, "device_bytes")},
          {seed_gpu, Paint::dim},
          {ratio_cell(record)},
          {gib(record, "baseline_bytes")},
          {gib(record, "peak_bytes")},
          {gib(record, "after_free_bytes")},
          {gib(record, "page_table_bytes")}};
}

std::string shape_text(const Record& record) {
  const Identity& id = record.id;
  const std::string row = id.dtype == "bytes" ? fmt::format("rows of {} bytes", grouped(id.dim))
                                              : fmt::format("× {} {}", grouped(id.dim), id.dtype);
  const auto bytes = bytes_of(record, "requested_bytes");
  const std::string size =
      bytes ? fmt::format(" ({}, {} GiB)", bytes_text(*bytes), gib(record, "requested_bytes"))
            : std::string();
  return fmt::format("{} {}{}; GiB, each in a process of its own", grouped(id.rows), row, size);
}

/// The row that knows the most of the shape.
const Record& speaker(const Rows& rows) {
  const auto measured = std::find_if(rows.begin(), rows.end(),
                                     [](const Record* row) { return bytes_of(*row, "requested_bytes"); });
  return measured == rows.end() ? *rows.front() : **measured;
}

std::string table_of_shape(const Rows& rows, Style style) {
  Grid grid({{"who", Align::left},
             {"CPU"},
             {"README"},
             {"GPU"},
             {"README"},
             {"/ asked"},
             {"before"},
             {"peak"},
             {"freed"},
             {"page tables"}});
  for (const Record* row : rows) grid.add(row_cells(*row));
  return painted("memory: what holding a table costs", Paint::bold, style) + "\n" +
         paragraph(shape_text(speaker(rows)), 2, Paint::none, style) + grid.render(style) +
         paragraph(kMemoryLegend, 2, Paint::dim, style) + reason_lines(rows, style);
}

}  // namespace

std::string memory_tables(const Rows& rows, Style style) {
  Rows shown;
  for (const Record* row : rows) {
    if (row->status != Status::waived || seed_of(row->id) != nullptr) shown.push_back(row);
  }
  if (shown.empty()) return {};
  std::stable_partition(shown.begin(), shown.end(),
                        [](const Record* row) { return row->status != Status::waived; });
  std::string text;
  for (const Rows& shape :
       group_by(shown, [](const Record& row) { return std::tuple(row.id.dtype, row.id.rows, row.id.dim); })) {
    text += (text.empty() ? "" : "\n") + table_of_shape(shape, style);
  }
  return text;
}

}  // namespace stbench::reports

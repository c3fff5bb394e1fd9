#include "benchmarks/transfer/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/transfer/operands.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "speedtorch/cuda.h"

namespace stbench {
namespace {

using speedtorch::Placement;

/// Tables of all placements may share the rounds while they take no more than this part of the free memory.
constexpr double shared_memory_part = 0.6;
/// A table whose size is the preset's leaves the rest of the free memory to others.
constexpr double most_of_memory = 0.8;

bool contains(const Placements& placements, Placement placement) {
  return std::ranges::find(placements, placement) != placements.end();
}

/// Bytes of the table. @throws UsageError if they do not fit 63 bits
std::int64_t table_bytes(const TransferCase& one) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(one.rows, one.shape().row_bytes(), &bytes)) {
    throw UsageError(fmt::format("a table of {} × {} {} overflows: more than 2^63 bytes", one.rows, one.dim,
                                 dtype_name(one.dtype)));
  }
  return bytes;
}

std::int64_t needed_bytes(const TransferCase& one) {
  std::int64_t bytes = 0;
  if (__builtin_add_overflow(table_bytes(one), Operands::working_bytes(one), &bytes))
    throw UsageError(fmt::format("a batch of {} rows overflows: more than 2^63 bytes", one.batch));
  return bytes;
}

std::string described(const TransferCase& shape) {
  return fmt::format("{} × {} {}", shape.rows, shape.dim, dtype_name(shape.dtype));
}

}  // namespace

void TransferFit::require_host(const TransferCase& shape, const Placements& placements) const {
  require_disk(shape, placements);
  const bool in_files = std::ranges::all_of(placements, [](auto one) { return one == Placement::mapped; });
  const auto needed = in_files ? Operands::working_bytes(shape) : needed_bytes(shape);
  if (needed <= memory_) return;
  throw UsageError(fmt::format(
      "{} with a batch of {} needs {} ({} bytes), {} are available\nuse fewer --rows or a smaller "
      "--batch",
      described(shape), shape.batch, harness::human_bytes(needed), needed, harness::human_bytes(memory_)));
}

/// A table in a file may be larger than memory, not than the disk.
void TransferFit::require_disk(const TransferCase& shape, const Placements& placements) const {
  if (!contains(placements, Placement::mapped) || !disk_free_ || table_bytes(shape) <= *disk_free_) return;
  throw UsageError(fmt::format(
      "{} in a file needs {}; {} are free in the folder of TMPDIR, else /var/tmp\nuse fewer "
      "--rows, another TMPDIR, or other placements than mapped",
      described(shape), harness::human_bytes(table_bytes(shape)), harness::human_bytes(*disk_free_)));
}

void TransferFit::require_gpu(const TransferCase& shape, const Placements& placements) const {
  if (!shape.on_gpu()) return;
  const auto free = speedtorch::cuda_free_bytes(shape.device);
  const auto needed =
      Operands::working_bytes(shape) + (contains(placements, Placement::device) ? table_bytes(shape) : 0);
  if (needed <= free) return;
  throw UsageError(
      fmt::format("{} with a batch of {} needs {} on {}, {} are free\nuse fewer --rows, a smaller --batch or "
                  "other placements than device",
                  described(shape), shape.batch, harness::human_bytes(needed), shape.device.str(),
                  harness::human_bytes(free)));
}

std::string TransferFit::warm_skip_reason(const TransferCase& cell) const {
  if (needed_bytes(cell) <= memory_ || cell.placement != Placement::mapped || cell.is_cold()) return {};
  return fmt::format(
      "the file has {} and {} of memory are available, so its pages cannot all be warm; use --cache cold or "
      "fewer --rows",
      harness::human_bytes(table_bytes(cell)), harness::human_bytes(memory_));
}

bool TransferFit::fit_together(const TransferCase& shape, std::size_t tables) const {
  const double together = static_cast<double>(needed_bytes(shape)) * static_cast<double>(tables);
  return together <= shared_memory_part * static_cast<double>(memory_);
}

std::int64_t TransferFit::bytes_within(std::int64_t wanted, const TransferCase& shape) const {
  const auto free = static_cast<std::int64_t>(static_cast<double>(memory_) * most_of_memory);
  const auto room = free - std::min(Operands::working_bytes(shape), memory_);
  return std::max(std::min(wanted, room), std::min(wanted, shape.batch * shape.shape().row_bytes()));
}

}  // namespace stbench

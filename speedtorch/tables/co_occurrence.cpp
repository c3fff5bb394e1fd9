#include "speedtorch/tables/co_occurrence.h"

#include <atomic>
#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/tables/saved_tables.h"
#include "speedtorch/tables/table_rows.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

constexpr std::int64_t kPairsOfAThread = 4096;

TableOptions on_host(const TableOptions& options) {
  if (options.placement == Placement::device)
    throw PlacementError(
        "a co-occurrence table is counted on the host; use `pinned` for a table that a GPU reads");
  return options;
}

}  // namespace

CoOccurrence::CoOccurrence(std::int64_t classes, const TableOptions& options)
    : table_(Table::filled({classes, classes}, at::kLong, Zeros{}, on_host(options))) {}

CoOccurrence::CoOccurrence(Table table) : table_(std::move(table)) {
  const auto sizes = table_.sizes();
  if (sizes.size() != 2 || sizes[0] != sizes[1] || table_.dtype() != at::kLong)
    throw ShapeError(std::string("a co-occurrence table is Long [classes, classes], not ") +
                     c10::toString(table_.dtype()) + " " + c10::str(sizes));
}

CoOccurrence CoOccurrence::from_file(const std::string& path, const TableOptions& options) {
  return CoOccurrence(Table::from_file(path, on_host(options), Access::read_write));
}

void CoOccurrence::add_pairs(const at::Tensor& first, const at::Tensor& second) {
  const auto from = RowIndex(first).numbers(classes(), at::kCPU).to(at::kLong);
  const auto to = RowIndex(second).numbers(classes(), at::kCPU).to(at::kLong);
  if (from.sizes() != to.sizes())
    throw ShapeError("the pairs have shapes " + shape_of(first) + " and " + shape_of(second) +
                     "; both must be equal");
  const auto* const rows = from.const_data_ptr<std::int64_t>();
  const auto* const columns = to.const_data_ptr<std::int64_t>();
  for (const auto* const numbers : {rows, columns}) kernels::check_indices(numbers, from.numel(), classes());
  wait_for_gpu(table_);
  const auto counts = table_.host_tensor();
  auto* const all = counts.mutable_data_ptr<std::int64_t>();
  const auto width = classes();
  const auto range = [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i)
      std::atomic_ref(all[rows[i] * width + columns[i]]).fetch_add(1, std::memory_order_relaxed);
  };
  parallel_for(from.numel(), kPairsOfAThread, range);
  bump_version(counts);
}

void CoOccurrence::add(const CoOccurrence& other) {
  if (other.classes() != classes())
    throw ShapeError("counts of " + c10::str(other.table_.sizes()) + " cannot be added to " +
                     c10::str(table_.sizes()));
  wait_for_gpu(table_);
  wait_for_gpu(other.table_);
  counts().add_(other.counts());
}

at::Tensor CoOccurrence::rows(const RowIndex& index) const { return gather_rows(table_, index, at::kCPU); }

void CoOccurrence::save(const std::string& path) const { save_npy(table_, path); }

}  // namespace speedtorch

#include "speedtorch/rows/duplicates.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/kernels/rows/duplicate_rows.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

using kernels::DuplicateRows;

constexpr std::int64_t kBytesOfAThread = 32768;  // below this, waking another thread costs more than it saves

DuplicateRows found_in(const at::Tensor& index, std::int64_t rows) {
  DuplicateRows found;
  with_index(index, [&](const auto* numbers) { found.find(numbers, index.numel(), rows, parallel_for); });
  return found;
}

/// The positions of distinct row `k` in the index.
std::span<const std::int64_t> places(const DuplicateRows& found, std::int64_t k) {
  const auto row = static_cast<std::size_t>(k);
  const auto begin = static_cast<std::size_t>(found.begins()[row]);
  return found.positions().subspan(begin, static_cast<std::size_t>(found.begins()[row + 1]) - begin);
}

void require_distinct(const DuplicateRows& found) {
  std::int64_t row = -1, first = 0, second = 0;
  for (std::int64_t k = 0; k < found.unique(); ++k) {
    const auto named = places(found, k);
    if (named.size() < 2 || (row >= 0 && named[1] > second)) continue;
    row = found.rows()[static_cast<std::size_t>(k)], first = named[0], second = named[1];
  }
  if (row >= 0) throw DuplicateError(row, first, second);
}

/// Calls `work(row, its positions)` in parallel for each distinct row.
template <class Work>
void each_row(const DuplicateRows& found, std::int64_t row_bytes, Work work) {
  const auto grain = std::max<std::int64_t>(1, kBytesOfAThread / std::max<std::int64_t>(1, row_bytes));
  const auto range = [&](std::int64_t begin, std::int64_t end) {
    for (auto k = begin; k < end; ++k) work(found.rows()[static_cast<std::size_t>(k)], places(found, k));
  };
  parallel_for(found.unique(), grain, range);
}

void write_last(kernels::ConstRows values, const DuplicateRows& found, kernels::Rows table) {
  each_row(found, table.row_bytes, [&](std::int64_t row, std::span<const std::int64_t> named) {
    std::memcpy(table.data + row * table.stride_bytes, values.data + named.back() * values.stride_bytes,
                static_cast<std::size_t>(table.row_bytes));
  });
}

/// The type in which to add elements: float32 for half precision, unsigned for integers, which may wrap.
template <class T>
using SumOf = std::conditional_t<
    std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>, float,
    std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::uint64_t, T>>;

/// Adds a block of columns at a time, so that the sums stay in the first-level cache whatever the row's
/// width.
template <class T>
void add_to_row(std::byte* bytes, std::int64_t row_bytes, const std::byte* values, std::int64_t stride,
                std::span<const std::int64_t> named) {
  using Sum = SumOf<T>;
  T* const row = reinterpret_cast<T*>(bytes);
  const auto columns = row_bytes / static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t block = 256;
  std::array<Sum, block> sums;
  for (std::int64_t from = 0; from < columns; from += block) {
    const auto now = std::min(block, columns - from);
    const auto width = static_cast<std::size_t>(now);
    for (std::size_t c = 0; c < width; ++c)
      sums[c] = static_cast<Sum>(row[from + static_cast<std::int64_t>(c)]);
    for (const auto place : named) {
      const T* const value = reinterpret_cast<const T*>(values + place * stride) + from;
      for (std::size_t c = 0; c < width; ++c) {
        if constexpr (std::is_same_v<T, bool>)
          sums[c] = sums[c] || value[c];
        else
          sums[c] += static_cast<Sum>(value[c]);
      }
    }
    for (std::size_t c = 0; c < width; ++c)
      row[from + static_cast<std::int64_t>(c)] = static_cast<T>(sums[c]);
  }
}

using AddToRow = decltype(&add_to_row<float>);

/// @throws ShapeError
void require_sums(at::ScalarType dtype) {
  constexpr std::array floating{at::kHalf,   at::kBFloat16,     at::kFloat,
                                at::kDouble, at::kComplexFloat, at::kComplexDouble};
  if (at::isIntegralType(dtype, true) || std::ranges::find(floating, dtype) != floating.end()) return;
  throw ShapeError(std::string("rows of ") + c10::toString(dtype) + " cannot be added");
}

/// The function that adds to a row of this dtype.
AddToRow adder_of(at::ScalarType dtype) {
  AddToRow add = nullptr;
  AT_DISPATCH_V2(dtype, "scatter_rows", AT_WRAP([&] { add = &add_to_row<scalar_t>; }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kHalf,
                 at::kBFloat16, at::kBool);
  return add;
}

void add_rows(kernels::ConstRows values, const DuplicateRows& found, kernels::Rows table,
              at::ScalarType dtype) {
  const auto add = adder_of(dtype);
  each_row(found, table.row_bytes, [&](std::int64_t row, std::span<const std::int64_t> named) {
    add(table.data + row * table.stride_bytes, table.row_bytes, values.data, values.stride_bytes, named);
  });
}

/// Rows of the host, checked.
struct HostRows {
  HostRows(const at::Tensor& values, const at::Tensor& index, at::Tensor& table, Duplicates duplicates)
      : from((check_operands(table, index, values, "values"), rows_of(values, "values"))),
        to(writable_rows_of(table, "the table")) {
    check_no_overlap(from, to, "values and the table");
    check_index_apart(index, to, "the index and the table");
    found = found_in(index, table.size(0));
    if (duplicates == Duplicates::reject) require_distinct(found);
  }
  kernels::ConstRows from;
  kernels::Rows to;
  DuplicateRows found;
};

void scatter_on_host(const at::Tensor& values, const at::Tensor& index, at::Tensor& table,
                     Duplicates duplicates) {
  const HostRows rows(values, index, table, duplicates);
  const auto& [from, to, found] = rows;
  if (duplicates != Duplicates::accumulate && found.unique() == index.numel())
    return scatter_rows(table, index, values);
  if (duplicates == Duplicates::accumulate)
    add_rows(from, found, to, table.scalar_type());
  else
    write_last(from, found, to);
  bump_version(table);
}

/// Counts a write to a tensor at the end of the scope, whether or not an exception ends it.
class CountedWrite {
 public:
  explicit CountedWrite(at::Tensor& table) : table_(table) {}
  ~CountedWrite() { bump_version(table_); }
  CountedWrite(const CountedWrite&) = delete;
  CountedWrite& operator=(const CountedWrite&) = delete;

 private:
  at::Tensor& table_;
};

void scatter_by(RowWriter write, const at::Tensor& values, const at::Tensor& index, at::Tensor& table,
                Duplicates duplicates) {
  const HostRows rows(values, index, table, duplicates);
  const auto add = duplicates == Duplicates::accumulate ? adder_of(table.scalar_type()) : nullptr;
  const auto &from = rows.from, to = kernels::ConstRows(rows.to);
  const CountedWrite counted(table);  // also if `write` throws after some rows
  each_row(rows.found, to.row_bytes, [&](std::int64_t row, std::span<const std::int64_t> named) {
    const auto* const begin =
        add != nullptr ? to.data + row * to.stride_bytes : from.data + named.back() * from.stride_bytes;
    write(row, [&](std::byte* value) {
      std::copy_n(begin, to.row_bytes, value);  // not memcpy(): without bytes, begin may be null
      if (add != nullptr) add(value, to.row_bytes, from.data, from.stride_bytes, named);
    });
  });
}

at::Tensor copied(std::span<const std::int64_t> numbers) {
  auto tensor = at::empty({static_cast<std::int64_t>(numbers.size())}, at::kLong);
  std::ranges::copy(numbers, tensor.mutable_data_ptr<std::int64_t>());
  return tensor;
}

/// The last position of each distinct row, on the host.
at::Tensor last_places(const DuplicateRows& found) {
  std::vector<std::int64_t> last;
  for (std::int64_t k = 0; k < found.unique(); ++k) last.push_back(places(found, k).back());
  return copied(last);
}

/// The type in which LibTorch sums on a GPU. It lacks sums of wider unsigned integers, whose bits are those
/// of the signed ones.
at::ScalarType summed_as(at::ScalarType dtype) {
  if (dtype == at::kUInt16) return at::kShort;
  if (dtype == at::kUInt32) return at::kInt;
  return dtype == at::kUInt64 ? at::kLong : dtype;
}

void scatter_on_gpu(const at::Tensor& values, const at::Tensor& index, at::Tensor& table,
                    Duplicates duplicates) {
  check_operands(table, index, values, "values");
  check_index_apart(index, writable_rows_of(table, "the table"), "the index and the table");
  const auto on_host = index.cpu();
  if (duplicates == Duplicates::accumulate) {
    // An index out of range would make index_put_ end the whole CUDA context.
    with_index(on_host,
               [&](const auto* numbers) { kernels::check_indices(numbers, index.numel(), table.size(0)); });
    const at::NoGradGuard unrecorded;
    const auto summed = summed_as(table.scalar_type());
    auto target = table.detach().view(summed);
    target.index_put_({index.flatten().to(at::kLong)}, values.detach().view(summed), /*accumulate=*/true);
    return;
  }
  const auto found = found_in(on_host, table.size(0));
  if (duplicates == Duplicates::reject) require_distinct(found);
  if (found.unique() == index.numel()) return scatter_rows(table, index, values);
  const auto last = values.detach().index_select(0, last_places(found).to(table.device()));
  scatter_rows(table, copied(found.rows()).to(table.device()), last);
}

/// The operands of a scatter as the kernels take them.
struct Scatter {
  at::Tensor numbers, values;
};

Scatter checked(const at::Tensor& table, const RowIndex& index, const at::Tensor& values,
                Duplicates duplicates) {
  if (table.requires_grad() && at::GradMode::is_enabled())
    throw AutogradError(
        "the table requires a gradient, and a scatter into it is not recorded; switch gradients "
        "off (torch.no_grad() or torch::NoGradGuard)");
  if (table.dim() == 0) throw ShapeError("the table is a scalar; it needs rows");
  check_in_memory(table, "the table");
  const auto numbers = index.numbers(table.size(0), table.device());
  const auto given = resolved(values);
  if (duplicates == Duplicates::accumulate) require_sums(table.scalar_type());
  return {numbers, given.dim() == table.dim() ? given : flat_rows(given, numbers, table)};
}

}  // namespace

void scatter_rows(at::Tensor& table, const RowIndex& index, const at::Tensor& values, Duplicates duplicates,
                  RowWriter write) {
  const auto [numbers, flat] = checked(table, index, values, duplicates);
  if (!table.device().is_cpu()) throw PlacementError("rows that a caller writes are on the CPU");
  scatter_by(write, flat, numbers, table, duplicates);
}

void scatter_rows(at::Tensor& table, const RowIndex& index, const at::Tensor& values, Duplicates duplicates) {
  const auto [numbers, flat] = checked(table, index, values, duplicates);
  if (duplicates == Duplicates::none) return scatter_rows(table, numbers, flat);
  if (table.device().is_cpu()) return scatter_on_host(flat, numbers, table, duplicates);
  scatter_on_gpu(flat, numbers, table, duplicates);
}

DistinctRows distinct_rows(const RowIndex& index, std::int64_t rows) {
  const auto numbers = index.numbers(rows, at::kCPU);
  const auto found = found_in(numbers, rows);
  DistinctRows distinct{copied(found.rows()), at::empty(numbers.sizes(), at::kLong)};
  auto* const positions = distinct.positions.mutable_data_ptr<std::int64_t>();
  const auto range = [&](std::int64_t begin, std::int64_t end) {
    for (auto k = begin; k < end; ++k)
      for (const auto place : places(found, k)) positions[place] = k;
  };
  parallel_for(found.unique(), kBytesOfAThread / 16, range);
  return distinct;
}

void require_distinct(const RowIndex& index, std::int64_t rows) {
  require_distinct(found_in(index.numbers(rows, at::kCPU), rows));
}

}  // namespace speedtorch

#include "benchmarks/row_check.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <limits>

#include "harness/fill.h"
#include "speedtorch/threads.h"

namespace stbench {
namespace {

constexpr int poison_byte = 0xA5;
constexpr std::int64_t rows_a_block = 256;

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

/// body(i) for every i in [0, n), in parallel.
template <class Body>
void each(std::int64_t n, Body body) {
  speedtorch::parallel_for(n, rows_a_block, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) body(i);
  });
}

at::Tensor index_tensor(const std::vector<std::int64_t>& rows, at::Device device) {
  auto* data = const_cast<std::int64_t*>(rows.data());  // from_blob's signature; the tensor is only read
  return at::from_blob(data, {static_cast<std::int64_t>(rows.size())}, at::kLong)
      .to(device, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

RowBytes::RowBytes(const speedtorch::Memory& memory, std::int64_t rows, std::int64_t row_bytes)
    : memory_(memory), rows_(rows), row_bytes_(row_bytes) {}

at::Tensor RowBytes::read(const std::vector<std::int64_t>& rows) const {
  const auto count = static_cast<std::int64_t>(rows.size());
  if (!memory_.on_host()) {
    const auto table = memory_.tensor({rows_, row_bytes_}, at::kByte);
    return table.index_select(0, index_tensor(rows, table.device())).cpu();
  }
  auto out = at::empty({count, row_bytes_}, at::kByte);
  each(count, [&](std::int64_t i) {
    std::memcpy(bytes_of(out) + i * row_bytes_,
                memory_.data() + rows[static_cast<std::size_t>(i)] * row_bytes_,
                static_cast<std::size_t>(row_bytes_));
  });
  return out;
}

void RowBytes::poison(const std::vector<std::int64_t>& rows) const {
  if (!memory_.on_host()) {
    auto table = memory_.tensor({rows_, row_bytes_}, at::kByte);
    table.index_fill_(0, index_tensor(rows, table.device()), poison_byte);
    return;
  }
  each(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i) {
    std::memset(memory_.data() + rows[static_cast<std::size_t>(i)] * row_bytes_, poison_byte,
                static_cast<std::size_t>(row_bytes_));
  });
}

void RowBytes::write_fill(const std::vector<std::int64_t>& rows, std::uint64_t seed) const {
  if (!memory_.on_host()) {
    auto table = memory_.tensor({rows_, row_bytes_}, at::kByte);
    auto values = at::empty({static_cast<std::int64_t>(rows.size()), row_bytes_}, at::kByte);
    fill_rows(values, rows, seed);
    table.index_copy_(0, index_tensor(rows, table.device()), values.to(table.device()));
    return;
  }
  each(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i) {
    const auto begin = rows[static_cast<std::size_t>(i)] * row_bytes_;
    harness::fill(memory_.data() + begin, begin, begin + row_bytes_, seed);
  });
}

void fill_rows(const at::Tensor& bytes, const std::vector<std::int64_t>& rows, std::uint64_t seed) {
  const auto row_bytes = static_cast<std::int64_t>(bytes.nbytes()) / bytes.size(0);
  each(bytes.size(0), [&](std::int64_t i) {
    const auto begin = rows[static_cast<std::size_t>(i)] * row_bytes;
    harness::fill(bytes_of(bytes) + i * row_bytes, begin, begin + row_bytes, seed);
  });
}

void poison(at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) {
    tensor.view(at::kByte).fill_(poison_byte);
    return;
  }
  const auto row_bytes = static_cast<std::int64_t>(tensor.nbytes()) / tensor.size(0);
  each(tensor.size(0), [&](std::int64_t i) {
    std::memset(bytes_of(tensor) + i * row_bytes, poison_byte, static_cast<std::size_t>(row_bytes));
  });
}

harness::Check check_rows(const at::Tensor& bytes, const std::vector<std::int64_t>& rows, std::uint64_t seed,
                          const char* what) {
  const auto host = bytes.cpu().contiguous();
  const auto count = static_cast<std::int64_t>(rows.size());
  const auto row_bytes = host.numel() == 0 ? 0 : static_cast<std::int64_t>(host.nbytes()) / host.size(0);
  if (host.size(0) != count)
    return {count, count, fmt::format("{} has {} rows instead of {}", what, host.size(0), count)};
  std::atomic<std::int64_t> mismatches{0}, first{std::numeric_limits<std::int64_t>::max()};
  each(count, [&](std::int64_t i) {
    const auto begin = rows[static_cast<std::size_t>(i)] * row_bytes;
    if (harness::first_mismatch(bytes_of(host) + i * row_bytes, begin, row_bytes, seed) < 0) return;
    ++mismatches;
    for (auto seen = first.load(); i < seen && !first.compare_exchange_weak(seen, i);) {
    }
  });
  harness::Check check{count, mismatches, {}};
  if (check.mismatches > 0) {
    const auto i = first.load();
    const auto row = rows[static_cast<std::size_t>(i)];
    const auto byte =
        harness::first_mismatch(bytes_of(host) + i * row_bytes, row * row_bytes, row_bytes, seed);
    check.first = fmt::format("{}, position {} (table row {}), from byte {}", what, i, row, byte);
  }
  return check;
}

void merge(harness::Check& check, const harness::Check& more) {
  check.rows += more.rows;
  check.mismatches += more.mismatches;
  if (check.first.empty()) check.first = more.first;
}

}  // namespace stbench

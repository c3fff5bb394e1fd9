#include "benchmarks/tables/row_check.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "speedtorch/threads.h"

namespace stbench {
namespace {

constexpr int poison_byte = 0xA5;
constexpr std::int64_t rows_a_block = 256;
constexpr std::int64_t device_block = std::int64_t{64}
                                      << 20;  // bytes of a device that are on the host at a time
constexpr std::int64_t page = 4096;
constexpr std::int64_t piece_bytes = std::int64_t{1} << 18;

using Rows = std::span<const std::int64_t>;

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

/// body(i) for every i in [0, n), in parallel.
template <class Body>
void each(std::int64_t n, Body body) {
  speedtorch::parallel_for(n, rows_a_block, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) body(i);
  });
}

std::int64_t row_at(Rows rows, std::int64_t i) { return rows[static_cast<std::size_t>(i)]; }

at::Tensor index_tensor(Rows rows, at::Device device) {
  auto* data = const_cast<std::int64_t*>(rows.data());  // from_blob's signature; the tensor is only read
  return at::from_blob(data, {std::ssize(rows)}, at::kLong).to(device);
}

/// body(part of `rows`) for parts of at most device_block bytes.
template <class Body>
void each_part(Rows rows, std::int64_t row_bytes, Body body) {
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, device_block / row_bytes));
  for (std::size_t begin = 0; begin < rows.size(); begin += most)
    body(rows.subspan(begin, std::min(most, rows.size() - begin)));
}

/// A row's first byte that differs from the content at `position`; -1 if none does.
using Mismatch = std::int64_t (*)(const std::byte* row, std::int64_t position, std::int64_t bytes,
                                  const Content& content);

std::int64_t first_other_byte(const std::byte* row, std::int64_t position, std::int64_t bytes,
                              const Content& content) {
  return content.first_mismatch(row, position, bytes);
}

/// The same of the elements as numbers.
template <class T>
std::int64_t first_other_number(const std::byte* row, std::int64_t position, std::int64_t bytes,
                                const Content& content) {
  if (content.first_mismatch(row, position, bytes) < 0) return -1;
  std::vector<std::byte> fill(static_cast<std::size_t>(bytes));
  content.write(fill.data(), position, position + bytes);
  for (std::int64_t byte = 0; byte < bytes; byte += static_cast<std::int64_t>(sizeof(T))) {
    T found, right;
    std::memcpy(&found, row + byte, sizeof(T));
    std::memcpy(&right, fill.data() + byte, sizeof(T));
    const auto a = static_cast<double>(found), b = static_cast<double>(right);
    if (a != b && !(std::isnan(a) && std::isnan(b))) return byte;
  }
  return -1;
}

Mismatch mismatch_of(Equality equality, at::ScalarType dtype) {
  if (equality == Equality::bits) return first_other_byte;
  if (dtype == at::kHalf) return first_other_number<at::Half>;
  if (dtype == at::kBFloat16) return first_other_number<at::BFloat16>;
  return dtype == at::kFloat ? first_other_number<float> : first_other_number<double>;
}

/// Compares the bytes that `at(i)` points to with row rows[i] of its content.
template <class At>
harness::Check compare(Rows rows, std::int64_t row_bytes, const ContentOf& content_of, const char* what,
                       At at, Mismatch differs = first_other_byte) {
  std::atomic<std::int64_t> mismatches{0}, first{std::numeric_limits<std::int64_t>::max()};
  const auto mismatch = [&](std::int64_t i) {
    const auto row = row_at(rows, i);
    return differs(at(i), row * row_bytes, row_bytes, content_of(row));
  };
  each(std::ssize(rows), [&](std::int64_t i) {
    if (mismatch(i) < 0) return;
    ++mismatches;
    for (auto seen = first.load(); i < seen && !first.compare_exchange_weak(seen, i);) {
    }
  });
  harness::Check check{std::ssize(rows), mismatches, {}};
  if (check.mismatches > 0) {
    const auto i = first.load();
    check.first =
        fmt::format("{}, position {} (table row {}), from byte {}", what, i, row_at(rows, i), mismatch(i));
  }
  return check;
}

/// Compares rows [begin, end) at `data` with the content: whole pieces first, then the rows of those that
/// differ.
harness::Check compare_range(const std::byte* data, std::int64_t begin, std::int64_t end,
                             std::int64_t row_bytes, const Content& content, const char* what) {
  const std::int64_t piece = std::max<std::int64_t>(1, piece_bytes / row_bytes);
  const auto pieces = (end - begin + piece - 1) / piece;
  std::vector<std::vector<std::int64_t>> differing(static_cast<std::size_t>(pieces));
  const auto differs = [&](std::int64_t first, std::int64_t count) {
    return content.first_mismatch(data + (first - begin) * row_bytes, first * row_bytes, count * row_bytes) >=
           0;
  };
  speedtorch::parallel_for(pieces, 1, [&](std::int64_t from, std::int64_t to) {
    for (auto i = from; i < to; ++i) {
      const auto first = begin + i * piece, last = std::min(end, first + piece);
      if (!differs(first, last - first)) continue;
      for (auto row = first; row < last; ++row) {
        if (differs(row, 1)) differing[static_cast<std::size_t>(i)].push_back(row);
      }
    }
  });
  harness::Check check{end - begin, 0, {}};
  for (const auto& rows : differing) {
    check.mismatches += std::ssize(rows);
    if (check.first.empty() && !rows.empty()) check.first = fmt::format("{}, row {}", what, rows.front());
  }
  return check;
}

}  // namespace

RowBytes::RowBytes(const speedtorch::Memory& memory, std::int64_t rows, std::int64_t row_bytes)
    : memory_(memory), rows_(rows), row_bytes_(row_bytes) {}

harness::Check RowBytes::check(Rows rows, const ContentOf& content_of, const char* what) const {
  if (memory_.on_host()) {
    return compare(rows, row_bytes_, content_of, what,
                   [&](std::int64_t i) { return memory_.data() + row_at(rows, i) * row_bytes_; });
  }
  const auto table = memory_.tensor({rows_, row_bytes_}, at::kByte);
  harness::Check check;
  each_part(rows, row_bytes_, [&](Rows part) {
    const auto host = table.index_select(0, index_tensor(part, table.device())).cpu();
    merge(check, compare(part, row_bytes_, content_of, what,
                         [&](std::int64_t i) { return bytes_of(host) + i * row_bytes_; }));
  });
  return check;
}

harness::Check RowBytes::check_all(Content content, const char* what) const {
  if (memory_.on_host()) return compare_range(memory_.data(), 0, rows_, row_bytes_, content, what);
  const auto table = memory_.tensor({rows_, row_bytes_}, at::kByte);
  const std::int64_t most = std::max<std::int64_t>(1, device_block / row_bytes_);
  harness::Check check;
  for (std::int64_t begin = 0; begin < rows_; begin += most) {
    const auto end = std::min(rows_, begin + most);
    const auto host = table.narrow(0, begin, end - begin).cpu();
    merge(check, compare_range(bytes_of(host), begin, end, row_bytes_, content, what));
  }
  return check;
}

void RowBytes::poison(Rows rows) const {
  if (!memory_.on_host()) {
    auto table = memory_.tensor({rows_, row_bytes_}, at::kByte);
    table.index_fill_(0, index_tensor(rows, table.device()), poison_byte);
    return;
  }
  each(std::ssize(rows), [&](std::int64_t i) {
    std::memset(memory_.data() + row_at(rows, i) * row_bytes_, poison_byte,
                static_cast<std::size_t>(row_bytes_));
  });
}

void RowBytes::write_content(Rows rows, const ContentOf& content_of) const {
  if (memory_.on_host()) {
    each(std::ssize(rows), [&](std::int64_t i) {
      const auto begin = row_at(rows, i) * row_bytes_;
      content_of(row_at(rows, i)).write(memory_.data() + begin, begin, begin + row_bytes_);
    });
    return;
  }
  auto table = memory_.tensor({rows_, row_bytes_}, at::kByte);
  each_part(rows, row_bytes_, [&](Rows part) {
    auto values = at::empty({std::ssize(part), row_bytes_}, at::kByte);
    fill_rows(values, part, content_of);
    table.index_copy_(0, index_tensor(part, table.device()), values.to(table.device()));
  });
}

void RowBytes::dirty(Rows rows) const {
  each(std::ssize(rows), [&](std::int64_t i) {
    volatile std::byte* row = memory_.data() + row_at(rows, i) * row_bytes_;
    for (std::int64_t at = 0; at < row_bytes_; at += page) row[at] = row[at];
    row[row_bytes_ - 1] = row[row_bytes_ - 1];
  });
}

void fill_rows(const at::Tensor& bytes, Rows rows, const ContentOf& content_of) {
  if (bytes.size(0) == 0) return;
  const auto row_bytes = static_cast<std::int64_t>(bytes.nbytes()) / bytes.size(0);
  each(bytes.size(0), [&](std::int64_t i) {
    const auto begin = row_at(rows, i) * row_bytes;
    content_of(row_at(rows, i)).write(bytes_of(bytes) + i * row_bytes, begin, begin + row_bytes);
  });
}

void poison(at::Tensor& tensor) {
  if (tensor.size(0) == 0) return;
  if (!tensor.device().is_cpu()) {
    tensor.view(at::kByte).fill_(poison_byte);
    return;
  }
  const auto row_bytes = static_cast<std::int64_t>(tensor.nbytes()) / tensor.size(0);
  each(tensor.size(0), [&](std::int64_t i) {
    std::memset(bytes_of(tensor) + i * row_bytes, poison_byte, static_cast<std::size_t>(row_bytes));
  });
}

harness::Check check_rows(const at::Tensor& result, Rows rows, std::int64_t row_bytes,
                          const ContentOf& content_of, const char* what, Equality equality) {
  const auto count = std::ssize(rows);
  if (result.dim() == 0 || result.size(0) != count ||
      static_cast<std::int64_t>(result.nbytes()) != count * row_bytes) {
    return {count, count,
            fmt::format("{} has {} bytes instead of {} rows of {}", what, result.nbytes(), count, row_bytes)};
  }
  const auto host = result.cpu().contiguous();
  return compare(
      rows, row_bytes, content_of, what, [&](std::int64_t i) { return bytes_of(host) + i * row_bytes; },
      mismatch_of(equality, result.scalar_type()));
}

harness::Check check_rows(const at::Tensor& result, Rows rows, std::int64_t row_bytes, Content content,
                          const char* what, Equality equality) {
  return check_rows(
      result, rows, row_bytes, [content](std::int64_t) { return content; }, what, equality);
}

void merge(harness::Check& check, const harness::Check& more) {
  check.rows += more.rows;
  check.mismatches += more.mismatches;
  if (check.first.empty()) check.first = more.first;
}

}  // namespace stbench

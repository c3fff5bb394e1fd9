#include "speedtorch/tables/table.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <functional>

#include "speedtorch/error.h"
#include "speedtorch/memory/shared_memory.h"
#include "speedtorch/system/parallel_read.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

constexpr std::int64_t staged_bytes = std::int64_t{64} << 20;

/// Bytes of a table. @throws ShapeError for an impossible shape or dtype
std::int64_t bytes_of(at::IntArrayRef sizes, at::ScalarType dtype) {
  if (at::isQIntType(dtype) || at::isBitsType(dtype) || dtype == at::ScalarType::Undefined)
    throw ShapeError(std::string("a table cannot hold elements of type ") + c10::toString(dtype));
  if (sizes.empty()) throw ShapeError("a table has rows, and a shape of no dimensions has none");
  auto bytes = static_cast<std::int64_t>(c10::elementSize(dtype));
  const bool is_empty = std::ranges::find(sizes, 0) != sizes.end();
  for (const auto size : sizes) {
    if (size < 0) throw ShapeError("a table cannot have a dimension of " + std::to_string(size));
    if (!is_empty && __builtin_mul_overflow(bytes, size, &bytes))
      throw ShapeError("a table cannot have more than 2^63 - 1 bytes");
  }
  return is_empty ? 0 : bytes;
}

/// The tensor through which a table is set: on the host if possible.
at::Tensor settable(const Table& table) {
  return table.memory()->on_host() ? table.host_tensor() : table.tensor();
}

using Set = std::function<void(at::Tensor&)>;

std::shared_ptr<Memory> memory_of(const TableOptions& options, std::int64_t bytes) {
  const bool in_file = options.placement == Placement::mapped;  // whose descriptor can be shared anyway
  if (options.shared && !in_file) return allocate_shared(options.placement, bytes, options.device);
  return allocate(options.placement, bytes, options.device);
}

Table make(at::IntArrayRef sizes, at::ScalarType dtype, const TableOptions& options, const Set& set) {
  const auto bytes = bytes_of(sizes, dtype);
  if (!options.file.empty()) {
    if (options.placement != Placement::mapped)
      throw ShapeError("only a mapped table takes a file, and this one is " +
                       std::string(to_string(options.placement)));
    return {MappedFile::create(options.file, sizes, dtype, set, options.space), sizes, dtype};
  }
  Table table(memory_of(options, std::max<std::int64_t>(1, bytes)), sizes, dtype);
  if (set) {
    auto elements = settable(table);
    set(elements);
  }
  return table;
}

/// Between a host and a GPU, LibTorch copies non-contiguous tensors through whole copies. So this copies some
/// rows at a time.
void copy_array(at::Tensor& target, const at::Tensor& array) {
  if (target.device() == array.device()) {
    target.copy_(array);
    return;
  }
  const auto rows = target.size(0), bytes = static_cast<std::int64_t>(target.nbytes());
  const auto step =
      bytes == 0 ? rows : std::max<std::int64_t>(1, staged_bytes / std::max<std::int64_t>(1, bytes / rows));
  for (std::int64_t row = 0; row < rows; row += step) {
    const auto now = std::min(step, rows - row);
    target.narrow(0, row, now).copy_(array.narrow(0, row, now));
  }
}

void read_array(at::Tensor& target, const ArrayFile& source) {
  const auto bytes = static_cast<std::int64_t>(target.nbytes());
  if (target.is_cpu()) {
    read_in_parallel(source.file.get(), source.data_offset, static_cast<std::byte*>(target.data_ptr()), bytes,
                     source.name);
    return;
  }
  auto elements = target.view({-1}).view(at::kByte);
  const auto block = at::empty({std::min(staged_bytes, bytes)}, at::kByte);
  for (std::int64_t from = 0; from < bytes; from += staged_bytes) {
    const auto now = std::min(staged_bytes, bytes - from);
    read_in_parallel(source.file.get(), source.data_offset + from, static_cast<std::byte*>(block.data_ptr()),
                     now, source.name);
    elements.narrow(0, from, now).copy_(block.narrow(0, 0, now));
  }
}

}  // namespace

Table::Table(std::shared_ptr<Memory> memory, at::IntArrayRef sizes, at::ScalarType dtype)
    : memory_(std::move(memory)), sizes_(sizes.vec()), dtype_(dtype) {
  const auto needed = bytes_of(sizes, dtype);
  if (needed > memory_->bytes())
    throw ShapeError("the table needs " + std::to_string(needed) + " bytes, the memory has " +
                     std::to_string(memory_->bytes()));
}

Table Table::empty(at::IntArrayRef sizes, at::ScalarType dtype, const TableOptions& options) {
  return make(sizes, dtype, options, {});
}

Table Table::filled(at::IntArrayRef sizes, at::ScalarType dtype, const Fill& with,
                    const TableOptions& options) {
  return make(sizes, dtype, options, [&](at::Tensor& elements) { speedtorch::fill(elements, with); });
}

Table Table::from_array(const at::Tensor& array, const TableOptions& options) {
  if (array.layout() != at::kStrided)
    throw ShapeError("a table copies a strided tensor, and this one is sparse");
  const auto source = array.detach();
  return make(source.sizes(), source.scalar_type(), options,
              [&](at::Tensor& elements) { copy_array(elements, source); });
}

Table Table::from_file(const std::string& path, const TableOptions& options, Access access) {
  if (options.placement != Placement::mapped) return copied_from_file(path, options);
  if (!options.file.empty())
    throw ShapeError("a mapped table from a file is that file itself; it cannot also create another file");
  const auto file = MappedFile::open(path, access);
  return {file, file->shape(), file->dtype()};
}

Table Table::copied_from_file(const std::string& path, const TableOptions& options) {
  const auto source = open_array(path, Access::read_only);
  return make(source.shape, source.dtype, options,
              [&](at::Tensor& elements) { read_array(elements, source); });
}

void Table::require_fits(at::IntArrayRef shape, at::ScalarType type, const std::string& source) const {
  if (shape == sizes() && type == dtype_) return;
  throw ShapeError("the table is " + std::string(c10::toString(dtype_)) + " " + c10::str(sizes()) +
                   " and cannot be set to " + source + c10::toString(type) + " " + c10::str(shape));
}

void Table::load(const std::string& path) {
  const auto source = open_array(path, Access::read_only);
  require_fits(source.shape, source.dtype, "'" + source.name + "', which is ");
  require_writable();
  wait_for_gpu(*this);
  auto elements = settable(*this);
  read_array(elements, source);
  bump_version(elements);
}

at::Tensor Table::tensor() const {
  memory_->check();
  return memory_->tensor(sizes_, dtype_);
}

at::Tensor Table::host_tensor() const {
  memory_->check();
  return memory_->host_tensor(sizes_, dtype_);
}

void Table::fill(const Fill& with) {
  require_writable();
  wait_for_gpu(*this);
  auto elements = settable(*this);
  speedtorch::fill(elements, with);
}

void Table::set(const at::Tensor& array) {
  if (array.layout() != at::kStrided)
    throw ShapeError("a table is set to a strided tensor, and this one is sparse");
  require_fits(array.sizes(), array.scalar_type());
  require_writable();
  wait_for_gpu(*this);
  auto elements = settable(*this);
  copy_array(elements, array.detach());
}

std::int64_t Table::bytes() const { return bytes_of(sizes_, dtype_); }

std::shared_ptr<MappedFile> Table::file() const { return std::dynamic_pointer_cast<MappedFile>(memory_); }

void wait_for_gpu(const Table& table) {
  const auto device = table.memory()->device();
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl streams(device.type());
  streams.synchronizeStream(streams.getStream(device));
}

}  // namespace speedtorch

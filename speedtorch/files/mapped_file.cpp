#include "speedtorch/files/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/files/npy_elements.h"
#include "speedtorch/rows/rows.h"

namespace speedtorch {
namespace {

/// The offset of the page that has this byte of a file.
std::int64_t page_of(std::int64_t offset) {
  static const std::int64_t bytes = ::sysconf(_SC_PAGESIZE);
  return offset - offset % bytes;
}

/// The place of a new `.npy` file's elements. @throws NpyError naming the file
ArrayFile new_array(const std::string& name, at::IntArrayRef shape, at::ScalarType dtype) {
  try {
    const auto bytes = npy_bytes(npy_element_of(dtype), shape);
    return {name, {}, ArrayFormat::npy, dtype, shape.vec(), kNpyDataOffset, bytes};
  } catch (const NpyError& error) {
    throw NpyError("'" + name + "': " + error.what());
  }
}

}  // namespace

MappedFile::MappedFile(ArrayFile source, Access access)
    : Memory(source.bytes),
      name_(std::move(source.name)),
      access_(access),
      shape_(std::move(source.shape)),
      dtype_(source.dtype),
      data_offset_(source.data_offset),
      mapped_from_(page_of(data_offset_ - 1)),
      file_(std::move(source.file)),
      mapping_(fd(), mapped_from_, end() - mapped_from_,
               access == Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE) {}

MappedFile::~MappedFile() = default;

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path, Access access) {
  auto source = open_array(path, access);
  require_aligned(source);
  return std::shared_ptr<MappedFile>(new MappedFile(std::move(source), access));
}

std::shared_ptr<MappedFile> MappedFile::create(const std::string& path, at::IntArrayRef shape,
                                               at::ScalarType dtype, const Fill& fill, Space space) {
  auto array = new_array(base_name(path), shape, dtype);
  NewFile file(path);
  file.resize(array.data_offset + array.bytes, space);
  file.write(npy_header(npy_element_of(dtype), shape), 0);
  array.file = file.duplicate();
  std::shared_ptr<MappedFile> made(new MappedFile(std::move(array), Access::read_write));
  if (fill) {
    auto elements = made->array();
    fill(elements);
  }
  made->flush();
  file.publish();
  return made;
}

at::Tensor MappedFile::array() const {
  check();
  return tensor(shape_, dtype_);
}

void MappedFile::check() const {
  struct stat now {};
  if (::fstat(fd(), &now) != 0) refuse_file(name_, "cannot be examined");
  if (now.st_size >= end()) return;
  throw FileError("'" + name_ + "' was shrunk while it was mapped: its elements end at byte " +
                  std::to_string(end()) + ", and it has " + std::to_string(now.st_size) + " bytes");
}

void MappedFile::require_writable() const {
  if (access_ == Access::read_only)
    throw FileError("'" + name_ + "' is open read_only and cannot be written; open it read_write");
}

void MappedFile::flush() {
  check();
  sync(mapped_from_, end());
}

void MappedFile::flush(std::int64_t first_row, std::int64_t rows) {
  const std::int64_t all = shape_.empty() ? 1 : shape_.front();
  if (first_row < 0 || rows < 0 || first_row > all || rows > all - first_row) {
    throw ShapeError("cannot flush " + std::to_string(rows) + " rows from row " + std::to_string(first_row) +
                     " on: '" + name_ + "' has " + std::to_string(all) + " rows");
  }
  check();
  if (rows == 0) return;
  const std::int64_t row_bytes = bytes() / all;
  sync(data_offset_ + first_row * row_bytes, data_offset_ + (first_row + rows) * row_bytes);
}

/// Flushes bytes `begin` to `end` of the file and what shares a page with them.
void MappedFile::sync(std::int64_t begin, std::int64_t end) const {
  if (access_ == Access::read_only) return;
  begin = page_of(begin);
  if (::msync(mapping_.data() + (begin - mapped_from_), static_cast<std::size_t>(end - begin), MS_SYNC) != 0)
    refuse_file(name_, "cannot be flushed, what was written may be lost");
}

PinnedFile MappedFile::pin(at::Device device) {
  check();
  auto self = std::static_pointer_cast<MappedFile>(shared_from_this());
  return register_read_only(std::move(self),
                            {mapping_.data(), static_cast<std::size_t>(end() - mapped_from_)}, device);
}

void gather_rows(const MappedFile& table, const at::Tensor& index, at::Tensor& out) {
  gather_rows(table.array(), index, out);
}

void scatter_rows(MappedFile& table, const at::Tensor& index, const at::Tensor& values) {
  if (table.access() == Access::read_only)
    throw FileError("'" + table.name() + "' is open read_only: rows cannot be scattered into it");
  auto rows = table.array();
  scatter_rows(rows, index, values);
}

}  // namespace speedtorch

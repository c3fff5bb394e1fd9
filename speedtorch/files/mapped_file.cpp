#include "speedtorch/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/files/npy_elements.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/system/parallel_read.h"

namespace speedtorch {
namespace {

/// Calls `work` and adds the file's name to its NpyErrors.
template <class Work>
auto naming(const std::string& name, Work work) {
  try {
    return work();
  } catch (const NpyError& error) {
    throw NpyError("'" + name + "': " + error.what());
  }
}

Descriptor open_file(const std::string& path, Access access) {
  const int mode = access == Access::read_only ? O_RDONLY : O_RDWR;
  // Without O_NONBLOCK, opening a pipe waits for its other end.
  Descriptor file(::open(path.c_str(), mode | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file.get() < 0)
    refuse_path(path, access == Access::read_only ? "cannot be opened" : "cannot be opened for writing");
  return file;
}

/// Returns the size of a regular file. Clears O_NONBLOCK, because io_uring fails on files that have it.
std::int64_t size_of(int fd, const std::string& path) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) refuse_path(path, "cannot be examined");
  if (!S_ISREG(found.st_mode))
    refuse_irregular(path, found.st_mode, S_ISDIR(found.st_mode) ? "is a folder" : "is not a regular file");
  if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0) refuse_path(path, "cannot be examined");
  return found.st_size;
}

std::vector<std::byte> read_beginning(int fd, const std::string& path, std::int64_t file_bytes) {
  std::vector<std::byte> beginning(static_cast<std::size_t>(std::min(file_bytes, kNpyHeaderBytes)));
  const auto [count, error] = read_bytes(fd, 0, beginning.data(), std::ssize(beginning));
  errno = error;
  if (error != 0) refuse_path(path, "cannot be read");
  beginning.resize(static_cast<std::size_t>(count));  // fewer if the file has shrunk meanwhile
  return beginning;
}

}  // namespace

NpyFile open_npy(const std::string& path, Access access) {
  const std::string name = base_name(path);
  auto file = open_file(path, access);
  const auto size = size_of(file.get(), path);
  const auto beginning = read_beginning(file.get(), path, size);
  auto array = naming(name, [&] { return npy_array(beginning, size); });
  return {name, std::move(file), std::move(array)};
}

FileTable table_of(const NpyFile& file) {
  const auto& array = file.array;
  if (array.shape.empty()) throw ShapeError("'" + file.name + "' holds a scalar; an array of rows is needed");
  const auto rows = array.shape.front();
  return {file.file.get(), array.data_offset, rows, rows > 0 ? array.bytes / rows : 0};
}

MappedFile::MappedFile(NpyFile source, Access access)
    : Memory(source.array.bytes),
      name_(std::move(source.name)),
      access_(access),
      shape_(std::move(source.array.shape)),
      dtype_(dtype_of(source.array.element)),
      data_offset_(source.array.data_offset),
      file_(std::move(source.file)),
      mapping_(fd(), mapped_bytes(), access == Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE) {}

MappedFile::~MappedFile() = default;

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path, Access access) {
  auto source = open_npy(path, access);
  naming(source.name, [&] { require_aligned(source.array); });
  return std::shared_ptr<MappedFile>(new MappedFile(std::move(source), access));
}

std::shared_ptr<MappedFile> MappedFile::create(const std::string& path, at::IntArrayRef shape,
                                               at::ScalarType dtype, const Fill& fill, Space space) {
  const std::string name = base_name(path);
  const auto array = naming(name, [&] {
    const auto element = npy_element_of(dtype);
    return NpyArray{element, shape.vec(), kNpyDataOffset, npy_bytes(element, shape)};
  });
  NewFile file(path);
  file.resize(array.data_offset + array.bytes, space);
  file.write(npy_header(array.element, array.shape), 0);
  std::shared_ptr<MappedFile> made(new MappedFile({name, file.duplicate(), array}, Access::read_write));
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
  if (now.st_size >= mapped_bytes()) return;
  throw FileError("'" + name_ + "' was shrunk while it was mapped: it had " + std::to_string(mapped_bytes()) +
                  " bytes and has " + std::to_string(now.st_size));
}

void MappedFile::require_writable() const {
  if (access_ == Access::read_only)
    throw FileError("'" + name_ + "' is open read_only and cannot be written; open it read_write");
}

void MappedFile::flush() {
  check();
  sync(0, mapped_bytes());
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
  static const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  begin -= begin % page;
  if (::msync(mapping_.data() + begin, static_cast<std::size_t>(end - begin), MS_SYNC) != 0)
    refuse_file(name_, "cannot be flushed, what was written may be lost");
}

PinnedFile MappedFile::pin(at::Device device) {
  check();
  auto self = std::static_pointer_cast<MappedFile>(shared_from_this());
  return register_read_only(std::move(self), {mapping_.data(), static_cast<std::size_t>(mapped_bytes())},
                            device);
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

#include "speedtorch/files/array_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/files/npy_elements.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/system/parallel_read.h"

namespace speedtorch {
namespace {

constexpr std::string_view kSafetensorsEnding = ".safetensors";

/// F4, F6_E2M3 and F6_E3M2 are missing: their elements are no whole bytes.
constexpr std::array<std::pair<std::string_view, at::ScalarType>, 19> kSafetensorsDtypes{
    {{"BOOL", at::kBool},
     {"U8", at::kByte},
     {"I8", at::kChar},
     {"F8_E5M2", at::kFloat8_e5m2},
     {"F8_E4M3", at::kFloat8_e4m3fn},
     {"F8_E4M3FNUZ", at::kFloat8_e4m3fnuz},
     {"F8_E5M2FNUZ", at::kFloat8_e5m2fnuz},
     {"F8_E8M0", at::kFloat8_e8m0fnu},
     {"I16", at::kShort},
     {"U16", at::kUInt16},
     {"F16", at::kHalf},
     {"BF16", at::kBFloat16},
     {"I32", at::kInt},
     {"U32", at::kUInt32},
     {"F32", at::kFloat},
     {"C64", at::kComplexFloat},
     {"F64", at::kDouble},
     {"I64", at::kLong},
     {"U64", at::kUInt64}}};

at::ScalarType dtype_of(const SafetensorsTensor& tensor) {
  const auto* const found = std::ranges::find(kSafetensorsDtypes, tensor.dtype,
                                              &std::pair<std::string_view, at::ScalarType>::first);
  if (found == kSafetensorsDtypes.end())
    throw SafetensorsError("the tensor has elements of " + tensor.dtype +
                           ", which are no whole bytes; a table's elements are");
  return found->second;
}

/// Calls `work` and adds the file's name to its errors.
template <class Work>
auto naming(const std::string& name, Work work) {
  try {
    return work();
  } catch (const NpyError& error) {
    throw NpyError("'" + name + "': " + error.what());
  } catch (const SafetensorsError& error) {
    throw SafetensorsError("'" + name + "': " + error.what());
  }
}

bool exists(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0;
}

bool is_file(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
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

/// The first bytes of a file; fewer if it has shrunk meanwhile.
std::vector<std::byte> read_beginning(int fd, const std::string& path, std::int64_t bytes) {
  std::vector<std::byte> beginning(static_cast<std::size_t>(bytes));
  const auto [count, error] = read_bytes(fd, 0, beginning.data(), bytes);
  errno = error;
  if (error != 0) refuse_path(path, "cannot be read");
  beginning.resize(static_cast<std::size_t>(count));
  return beginning;
}

/// True if a file without that ending may be a safetensors file: its header begins with '{', and the length
/// before it has its three highest bytes zero.
bool looks_like_safetensors(std::span<const std::byte> beginning) {
  return beginning.size() > 8 && beginning[8] == std::byte{'{'} &&
         std::ranges::all_of(beginning.subspan(5, 3), [](auto byte) { return byte == std::byte{0}; });
}

void take_npy(ArrayFile& into, std::span<const std::byte> beginning, std::int64_t file_bytes) {
  auto array = npy_array(beginning, file_bytes);
  into.dtype = dtype_of(array.element);
  into.shape = std::move(array.shape);
  into.data_offset = array.data_offset;
  into.bytes = array.bytes;
}

void take_tensor(ArrayFile& into, const std::optional<std::string>& tensor, const std::string& path,
                 std::vector<std::byte> beginning, std::int64_t file_bytes) {
  const auto header = safetensors_header_bytes(beginning, file_bytes);
  if (header > std::ssize(beginning)) beginning = read_beginning(into.file.get(), path, header);
  const auto all = parse_safetensors(beginning, file_bytes);
  const auto& found = tensor_named(all, tensor);
  into.format = ArrayFormat::safetensors;
  into.dtype = dtype_of(found);
  into.shape = found.shape;
  into.data_offset = found.offset;
  into.bytes = found.bytes;
}

/// The bytes of one element, or of a part of a complex one.
std::int64_t alignment_of(at::ScalarType dtype) {
  const auto bytes = static_cast<std::int64_t>(c10::elementSize(dtype));
  return c10::isComplexType(dtype) ? bytes / 2 : bytes;
}

}  // namespace

ArrayPath split_array_path(const std::string& path) {
  if (exists(path)) return {path, std::nullopt};
  for (auto colon = path.rfind(':'); colon != std::string::npos && colon > 0;
       colon = path.rfind(':', colon - 1))
    if (is_file(path.substr(0, colon))) return {path.substr(0, colon), path.substr(colon + 1)};
  if (const auto end = path.find(std::string(kSafetensorsEnding) + ":"); end != std::string::npos) {
    const auto colon = end + kSafetensorsEnding.size();
    return {path.substr(0, colon), path.substr(colon + 1)};
  }
  return {path, std::nullopt};
}

ArrayFile open_array(const std::string& path, Access access) {
  const auto [file, tensor] = split_array_path(path);
  ArrayFile array;
  array.name = base_name(file) + (tensor ? ":" + *tensor : "");
  array.file = open_file(file, access);
  const auto size = size_of(array.file.get(), file);
  auto beginning = read_beginning(array.file.get(), file, std::min(size, kNpyHeaderBytes));
  naming(array.name, [&] {
    if (is_npy(beginning)) {
      if (tensor) throw NpyError("a .npy file holds one array and no tensor '" + *tensor + "'");
      take_npy(array, beginning, size);
    } else if (tensor || file.ends_with(kSafetensorsEnding) || looks_like_safetensors(beginning)) {
      take_tensor(array, tensor, file, std::move(beginning), size);
    } else {
      take_npy(array, beginning, size);
    }
  });
  return array;
}

void require_aligned(const ArrayFile& array) {
  const auto unit = alignment_of(array.dtype);
  if (array.data_offset % unit == 0) return;
  const auto why = "'" + array.name + "': the elements begin at byte " + std::to_string(array.data_offset) +
                   " of the file, not a multiple of " + std::to_string(unit) +
                   ", so they cannot be mapped: read the file into another placement, or save it again";
  if (array.format == ArrayFormat::npy) throw NpyError(why + " with np.save");
  throw SafetensorsError(why + " with the package safetensors");
}

FileTable file_table(const ArrayFile& array) {
  if (array.shape.empty())
    throw ShapeError("'" + array.name + "' holds a scalar; an array of rows is needed");
  const auto rows = array.shape.front();
  return {array.file.get(), array.data_offset, rows, rows > 0 ? array.bytes / rows : 0};
}

}  // namespace speedtorch

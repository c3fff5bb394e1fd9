#include "tests/emulated_gpu/runtime/fat_binary.h"

#include <dlfcn.h>

#include <cstring>
#include <optional>
#include <stdexcept>

#include "tests/emulated_gpu/runtime/messages.h"

namespace emulated_gpu {
namespace {

/// The argument of __cudaRegisterFatBinary.
struct Wrapper {
  std::uint32_t magic, version;
  const std::uint8_t* data;
  void* file_name;
};

struct FileHeader {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  ///< of all entries
};

/// Before the code for one architecture.
struct EntryHeader {
  std::uint16_t kind, unknown;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  ///< of what follows, padded
  std::uint32_t packed_bytes, unknown2;
  std::uint16_t minor, major;
  std::uint32_t architecture, name_offset, name_bytes;
  std::uint64_t flags, zero, unpacked_bytes;
};
static_assert(sizeof(FileHeader) == 16 && sizeof(EntryHeader) == 64);

constexpr std::uint32_t wrapper_magic = 0x466243B1, file_magic = 0xBA55ED50;
constexpr std::uint16_t kind_ptx = 1;
constexpr std::uint64_t flag_lz4 = 0x2000, flag_zstd = 0x8000;

/// A length of LZ4: four bits, and further bytes if they are all set.
std::size_t lz4_length(std::size_t first, const std::uint8_t*& at, const std::uint8_t* end) {
  std::size_t length = first;
  std::uint8_t more = first == 15 ? 255 : 0;
  while (more == 255) {
    if (at == end) throw std::runtime_error("LZ4: the text ends in a length");
    more = *at++;
    length += more;
  }
  return length;
}

/// libzstd is part of every distribution, its headers are not: it is loaded when it is needed.
std::string unpack_zstd(const std::uint8_t* packed, std::size_t bytes, std::size_t unpacked_bytes) {
  void* const library = ::dlopen("libzstd.so.1", RTLD_NOW);
  if (library == nullptr) throw std::runtime_error(text("PTX is packed with zstd: ", ::dlerror()));
  using Decompress = std::size_t (*)(void*, std::size_t, const void*, std::size_t);
  const auto decompress = reinterpret_cast<Decompress>(::dlsym(library, "ZSTD_decompress"));
  if (decompress == nullptr) throw std::runtime_error("libzstd.so.1 has no ZSTD_decompress");
  std::string unpacked(unpacked_bytes, '\0');
  if (decompress(unpacked.data(), unpacked.size(), packed, bytes) != unpacked_bytes)
    throw std::runtime_error("zstd cannot unpack the PTX");
  return unpacked;
}

std::string unpack(const EntryHeader& entry, const std::uint8_t* data) {
  std::string unpacked;
  if ((entry.flags & flag_zstd) != 0) {
    unpacked = unpack_zstd(data, entry.packed_bytes, entry.unpacked_bytes);
  } else if ((entry.flags & flag_lz4) != 0) {
    unpacked = unpack_lz4(data, entry.packed_bytes, entry.unpacked_bytes);
  } else {
    unpacked.assign(reinterpret_cast<const char*>(data), entry.bytes);
  }
  return unpacked.substr(0, unpacked.find('\0'));
}

}  // namespace

std::string unpack_lz4(const std::uint8_t* packed, std::size_t bytes, std::size_t unpacked_bytes) {
  std::string out;
  out.reserve(unpacked_bytes);
  const std::uint8_t* at = packed;
  const std::uint8_t* const end = packed + bytes;
  while (at < end) {
    const unsigned token = *at++;
    const std::size_t literals = lz4_length(token >> 4, at, end);
    if (literals > static_cast<std::size_t>(end - at))
      throw std::runtime_error("LZ4: the text ends in literals");
    out.append(reinterpret_cast<const char*>(at), literals);
    at += literals;
    if (at == end) break;
    if (end - at < 2) throw std::runtime_error("LZ4: the text ends in an offset");
    const std::size_t back = at[0] + 256U * at[1];
    at += 2;
    if (back == 0 || back > out.size()) throw std::runtime_error("LZ4: an offset before the text");
    const std::size_t length = lz4_length(token & 15, at, end) + 4;
    for (std::size_t i = 0; i < length; ++i) out += out[out.size() - back];
  }
  if (out.size() != unpacked_bytes)
    throw std::runtime_error("LZ4: the text has another size than its header says");
  return out;
}

Ptx ptx_of_fat_binary(const void* wrapper, int device, bool newest) {
  Wrapper found{};
  std::memcpy(&found, wrapper, sizeof found);
  FileHeader file{};
  if (found.magic == wrapper_magic && found.data != nullptr) std::memcpy(&file, found.data, sizeof file);
  if (file.magic != file_magic) throw std::runtime_error("it is no fat binary that is known");
  const std::uint8_t* at = found.data + file.header_bytes;
  const std::uint8_t* const end = at + file.bytes;
  std::optional<EntryHeader> best;
  const std::uint8_t* best_data = nullptr;
  std::string others;
  while (at + sizeof(EntryHeader) <= end) {
    EntryHeader entry{};
    std::memcpy(&entry, at, sizeof entry);
    const auto architecture = static_cast<int>(entry.architecture);
    const bool fits = entry.kind == kind_ptx && architecture <= device;
    if (entry.kind == kind_ptx) others += text(" compute_", architecture);
    if (fits && (!best || (newest ? entry.architecture > best->architecture
                                  : entry.architecture < best->architecture))) {
      best = entry;
      best_data = at + entry.header_bytes;
    }
    at += entry.header_bytes + entry.bytes;
  }
  if (!best)
    throw std::runtime_error(others.empty() ? "its fat binary holds no PTX"
                                            : text("its PTX is for", others, ", the device is of ", device));
  return {unpack(*best, best_data), static_cast<int>(best->architecture)};
}

}  // namespace emulated_gpu

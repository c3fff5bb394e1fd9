// The format is PKWARE's APPNOTE.TXT with its 64-bit records, some of which torch writes in each file.

#include "speedtorch/files/archive.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "speedtorch/system/mapping.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/system/parallel_read.h"

namespace speedtorch {
namespace {

constexpr std::uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr std::uint32_t kEntry = 0x02014b50, kLocalHeader = 0x04034b50;
constexpr std::uint64_t kEndBytes = 22, kEnd64LocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46,
                        kLocalBytes = 30;
constexpr std::uint64_t kLongestComment = 0xFFFF;
constexpr std::uint32_t kIn64Bits = 0xFFFFFFFF;  ///< means that the number is in the entry's extra field
constexpr std::uint16_t kExtra64 = 1, kStored = 0, kDeflated = 8;
constexpr std::uint64_t kReadBytes = 1 << 20;

using Bytes = std::string_view;

/// The little-endian number at `at`, which the caller has checked.
template <class T>
T number(Bytes bytes, std::uint64_t at) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct Entry {
  std::string name;
  std::uint16_t method = 0;
  std::uint32_t checksum = 0;  ///< 0 if it was not computed
  std::uint64_t packed = 0;    ///< in the file
  std::uint64_t bytes = 0;     ///< of the content
  std::uint64_t header = 0;    ///< offset of its local header
};

class Archive {
 public:
  Archive(const std::string& path, std::string why)
      : name_(base_name(path)),
        why_(std::move(why)),
        file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat found {};
    if (file_.get() < 0 || ::fstat(file_.get(), &found) != 0) refuse_path(path, "cannot be read");
    if (!S_ISREG(found.st_mode)) refuse_irregular(path, found.st_mode, "is not a regular file");
    size_ = static_cast<std::uint64_t>(found.st_size);
  }

  void check() const {
    const auto directory = read_directory();
    for (Bytes rest = directory; !rest.empty();) check(next_entry(rest));
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw FileError("'" + name_ + "' " + why_ + ": " + what);
  }

  [[noreturn]] void refuse(const Entry& entry, const std::string& what) const {
    refuse("its entry '" + entry.name + "' " + what);
  }

  [[nodiscard]] bool has(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset;
  }

  void read(std::uint64_t offset, char* to, std::uint64_t bytes) const {
    const auto [count, error] =
        read_bytes(file_.get(), static_cast<std::int64_t>(offset), reinterpret_cast<std::byte*>(to),
                   static_cast<std::int64_t>(bytes));
    errno = error;
    if (error != 0) refuse_file(name_, "cannot be read");
    if (static_cast<std::uint64_t>(count) < bytes) refuse("it was cut off while it was read");
  }

  [[nodiscard]] std::string read(std::uint64_t offset, std::uint64_t bytes) const {
    std::string content(bytes, '\0');
    read(offset, content.data(), bytes);
    return content;
  }

  /// The position of the record that ends each archive.
  [[nodiscard]] std::uint64_t find_end() const {
    const auto bytes = std::min(size_, kEndBytes + kLongestComment);
    const auto tail = read(size_ - bytes, bytes);
    for (auto at = static_cast<std::int64_t>(bytes - std::min(bytes, kEndBytes)); at >= 0; --at) {
      const auto place = static_cast<std::uint64_t>(at);
      if (bytes - place >= kEndBytes && number<std::uint32_t>(tail, place) == kEnd)
        return size_ - bytes + place;
    }
    refuse("it is not a zip archive, or is cut off");
  }

  /// All entries of the directory, concatenated.
  [[nodiscard]] std::string read_directory() const {
    const auto end = find_end();
    const auto record = read(end, kEndBytes);
    std::uint64_t bytes = number<std::uint32_t>(record, 12), offset = number<std::uint32_t>(record, 16);
    if (end >= kEnd64LocatorBytes) {
      const auto locator = read(end - kEnd64LocatorBytes, kEnd64LocatorBytes);
      const auto place = number<std::uint64_t>(locator, 8);
      if (number<std::uint32_t>(locator, 0) == kEnd64Locator && has(place, kEnd64Bytes)) {
        const auto wide = read(place, kEnd64Bytes);
        if (number<std::uint32_t>(wide, 0) == kEnd64)
          bytes = number<std::uint64_t>(wide, 40), offset = number<std::uint64_t>(wide, 48);
      }
    }
    if (!has(offset, bytes)) refuse("its directory lies outside of it");
    return read(offset, bytes);
  }

  /// Takes the next entry from the rest of the directory.
  [[nodiscard]] Entry next_entry(Bytes& rest) const {
    const auto damaged = [this] { refuse("its directory is damaged"); };
    if (rest.size() < kEntryBytes || number<std::uint32_t>(rest, 0) != kEntry) damaged();
    const std::uint64_t name = number<std::uint16_t>(rest, 28), extra = number<std::uint16_t>(rest, 30),
                        comment = number<std::uint16_t>(rest, 32);
    if (rest.size() - kEntryBytes < name + extra + comment) damaged();
    Entry entry{std::string(rest.substr(kEntryBytes, name)),
                number<std::uint16_t>(rest, 10),
                number<std::uint32_t>(rest, 16),
                number<std::uint32_t>(rest, 20),
                number<std::uint32_t>(rest, 24),
                number<std::uint32_t>(rest, 42)};
    read_extra(rest.substr(kEntryBytes + name, extra), entry);
    rest.remove_prefix(kEntryBytes + name + extra + comment);
    return entry;
  }

  /// Reads the 64-bit numbers of those fields, in this order, that do not fit into 32 bits.
  void read_extra(Bytes extra, Entry& entry) const {
    while (extra.size() >= 4) {
      const auto kind = number<std::uint16_t>(extra, 0);
      auto field = extra.substr(4, number<std::uint16_t>(extra, 2));
      extra.remove_prefix(4 + field.size());
      if (kind != kExtra64) continue;
      for (auto* const value : {&entry.bytes, &entry.packed, &entry.header}) {
        if (*value != kIn64Bits || field.size() < 8) continue;
        *value = number<std::uint64_t>(field, 0);
        field.remove_prefix(8);
      }
    }
  }

  void check(const Entry& entry) const {
    if (!has(entry.header, kLocalBytes)) refuse(entry, "lies outside of it");
    const auto header = read(entry.header, kLocalBytes);
    if (number<std::uint32_t>(header, 0) != kLocalHeader) refuse(entry, "is not where the directory says");
    const auto begin =
        entry.header + kLocalBytes + number<std::uint16_t>(header, 26) + number<std::uint16_t>(header, 28);
    if (!has(begin, entry.packed)) {
      refuse(entry, "would have " + std::to_string(entry.packed) + " bytes from byte " +
                        std::to_string(begin) + " on, and the file has " + std::to_string(size_));
    }
    if (entry.method != kStored && entry.method != kDeflated)
      refuse(entry, "is compressed by method " + std::to_string(entry.method) + ", which torch never writes");
    if (entry.method == kStored && entry.packed != entry.bytes) {
      refuse(entry, "would have " + std::to_string(entry.bytes) + " bytes, and takes " +
                        std::to_string(entry.packed));
    }
    const auto checksum =
        entry.method == kStored ? checksum_of(entry, begin) : checksum_unpacked(entry, begin);
    if (entry.checksum != 0 && checksum != entry.checksum)
      refuse(entry, "is damaged: its checksum (CRC-32) is not the one that was written");
  }

  /// Calls `take(piece)` for all bytes of the entry as stored in the file.
  template <class Take>
  void each_piece(const Entry& entry, std::uint64_t begin, Take take) const {
    std::vector<char> piece(std::min(kReadBytes, entry.packed));
    for (std::uint64_t done = 0; done < entry.packed; done += piece.size()) {
      const auto count = std::min<std::uint64_t>(piece.size(), entry.packed - done);
      read(begin + done, piece.data(), count);
      take(Bytes(piece.data(), count));
    }
  }

  [[nodiscard]] static std::uint32_t added(std::uint32_t checksum, const void* bytes, std::size_t count) {
    return static_cast<std::uint32_t>(::crc32_z(checksum, static_cast<const Bytef*>(bytes), count));
  }

  [[nodiscard]] std::uint32_t checksum_of(const Entry& entry, std::uint64_t begin) const {
    std::uint32_t checksum = 0;
    each_piece(entry, begin, [&](Bytes piece) { checksum = added(checksum, piece.data(), piece.size()); });
    return checksum;
  }

  /// The checksum of a compressed entry. torch compresses TorchScript's code only.
  [[nodiscard]] std::uint32_t checksum_unpacked(const Entry& entry, std::uint64_t begin) const {
    z_stream stream{};
    if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw MemoryError("zlib cannot begin to unpack");
    std::uint32_t checksum = 0;
    std::uint64_t bytes = 0;
    int answer = Z_OK;
    each_piece(entry, begin, [&](Bytes piece) {
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
      stream.avail_in = static_cast<uInt>(piece.size());
      std::array<Bytef, 1 << 14> unpacked;
      do {
        stream.next_out = unpacked.data();
        stream.avail_out = static_cast<uInt>(unpacked.size());
        answer = answer == Z_OK ? ::inflate(&stream, Z_NO_FLUSH) : answer;
        const auto count = unpacked.size() - stream.avail_out;
        checksum = added(checksum, unpacked.data(), count);
        bytes += count;
      } while (answer == Z_OK && stream.avail_out == 0);
      if (answer == Z_BUF_ERROR) answer = Z_OK;  // it needs the next piece
    });
    ::inflateEnd(&stream);
    if (answer != Z_STREAM_END || bytes != entry.bytes) refuse(entry, "is damaged: it cannot be unpacked");
    return checksum;
  }

  std::string name_;
  std::string why_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

void check_archive(const std::string& path, const std::string& why) { Archive(path, why).check(); }

void refuse_archive(const std::string& path, const std::string& why, const std::exception& error) {
  const auto* const torchs = dynamic_cast<const c10::Error*>(&error);
  const std::string what = torchs != nullptr ? torchs->what_without_backtrace() : error.what();
  const auto begin = std::min(what.find_first_not_of('\n'), what.size());
  throw FileError("'" + base_name(path) + "' " + why + ": " + first_line(what.substr(begin)));
}

}  // namespace speedtorch

#include "speedtorch/files/row_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/system/parallel_read.h"
#include "speedtorch/system/size_signal.h"

namespace speedtorch {
namespace {

/// The system's limit per call (IOV_MAX).
constexpr std::size_t kMostPieces = 1024;
/// Rows whose pages are announced before the first of them is written: a write into a page that is
/// not resident reads it first.
constexpr std::size_t kAnnounced = 256;
constexpr std::int64_t kJournalData = 4096;  ///< where the rows begin

/// Writes all pieces from `offset` on. Returns 0 or an error number. The caller blocks SIGXFSZ, once for all
/// runs of rows: that takes four system calls.
int write_pieces(int fd, std::span<iovec> pieces, std::int64_t offset) {
  while (!pieces.empty()) {
    auto count = ::pwritev(fd, pieces.data(), static_cast<int>(std::min(pieces.size(), kMostPieces)), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return EIO;
    offset += count;
    while (!pieces.empty() && static_cast<std::size_t>(count) >= pieces.front().iov_len) {
      count -= static_cast<ssize_t>(pieces.front().iov_len);
      pieces = pieces.subspan(1);
    }
    if (count == 0) continue;
    pieces.front().iov_base = static_cast<std::byte*>(pieces.front().iov_base) + count;
    pieces.front().iov_len -= static_cast<std::size_t>(count);
  }
  return 0;
}

iovec piece_of(const void* bytes, std::size_t count) { return {const_cast<void*>(bytes), count}; }

/// Returns the end of the run of neighbouring rows that starts at `first`.
std::size_t end_of_run(std::span<const RowBytes> rows, std::size_t first) {
  auto end = first + 1;
  while (end < rows.size() && rows[end].row == rows[end - 1].row + 1) ++end;
  return end;
}

/// The beginning of a journal. Its checksum comes last.
struct JournalHeader {
  std::array<char, 8> magic;
  std::int64_t rows, row_bytes;
  std::uint64_t device, inode;  ///< of the table
  std::int64_t table_offset;
  std::uint32_t data_checksum, checksum;
};

constexpr std::array<char, 8> kMagic{'r', 'o', 'w', 's', ' ', '0', '1', '\n'};

std::uint32_t checksum_of(std::uint32_t before, const void* bytes, std::size_t count) {
  return static_cast<std::uint32_t>(::crc32_z(before, static_cast<const Bytef*>(bytes), count));
}

std::uint32_t checksum_of(const JournalHeader& header) {
  return checksum_of(0, &header, offsetof(JournalHeader, checksum));
}

JournalHeader header_for(const FileTable& table, std::int64_t rows, std::uint32_t data_checksum) {
  struct stat file {};
  if (::fstat(table.fd, &file) != 0) file = {};
  JournalHeader header{kMagic,      rows,         table.row_bytes, file.st_dev,
                       file.st_ino, table.offset, data_checksum,   0};
  header.checksum = checksum_of(header);
  return header;
}

/// The contents of a journal.
struct Stored {
  JournalHeader header{};
  std::vector<std::int64_t> rows;
  std::vector<std::byte> bytes;
};

/// False if there is no whole header: then the table is whole, because the header is written last and removed
/// first.
bool read_header(int fd, JournalHeader& header) {
  const auto [count, error] = read_bytes(fd, 0, reinterpret_cast<std::byte*>(&header), sizeof(header));
  return error == 0 && count == sizeof(header) && header.magic == kMagic &&
         header.checksum == checksum_of(header) && header.rows > 0 && header.row_bytes > 0;
}

/// Reads the rows that a header announces. False if they are not whole, as after a power failure.
bool read_rows(int fd, Stored& stored) {
  const auto& header = stored.header;
  struct stat file {};
  std::int64_t bytes = 0, all = 0;
  if (::fstat(fd, &file) != 0 || __builtin_mul_overflow(header.rows, header.row_bytes + 8, &all) ||
      file.st_size - kJournalData < all)
    return false;
  bytes = header.rows * header.row_bytes;
  stored.rows.resize(static_cast<std::size_t>(header.rows));
  stored.bytes.resize(static_cast<std::size_t>(bytes));
  const auto numbers = header.rows * 8;
  if (read_bytes(fd, kJournalData, reinterpret_cast<std::byte*>(stored.rows.data()), numbers).count !=
          numbers ||
      read_bytes(fd, kJournalData + numbers, stored.bytes.data(), bytes).count != bytes)
    return false;
  const auto checksum = checksum_of(0, stored.rows.data(), static_cast<std::size_t>(numbers));
  return checksum_of(checksum, stored.bytes.data(), stored.bytes.size()) == header.data_checksum;
}

Descriptor open_journal(const std::string& path, int flags) {
  return Descriptor(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
}

}  // namespace

FileRowWriter::FileRowWriter(const FileTable& table, std::string name)
    : table_(table), name_(std::move(name)) {}

void FileRowWriter::check_size() const {
  struct stat found {};
  if (::fstat(table_.fd, &found) != 0) refuse_file(name_, "cannot be examined");
  if (found.st_size >= table_.end()) return;
  throw FileError("'" + name_ + "' was shrunk: it has " + std::to_string(found.st_size) + " bytes, and its " +
                  std::to_string(table_.rows) + " rows end at " + std::to_string(table_.end()));
}

void FileRowWriter::announce(std::int64_t row) const {
  ::posix_fadvise(table_.fd, table_.offset + row * table_.row_bytes, table_.row_bytes, POSIX_FADV_WILLNEED);
}

void FileRowWriter::write(std::span<const RowBytes> rows) const {
  check_size();
  const SizeSignalBlocked blocked;
  std::vector<iovec> pieces;
  for (std::size_t first = 0, announced = 0; first < rows.size();) {
    if (first >= announced) {
      announced = std::min(first + kAnnounced, rows.size());
      for (auto k = first; k < announced; ++k) announce(rows[k].row);
    }
    const auto end = end_of_run(rows, first);
    pieces.clear();
    for (auto k = first; k < end; ++k)
      pieces.push_back(piece_of(rows[k].bytes, static_cast<std::size_t>(table_.row_bytes)));
    errno = write_pieces(table_.fd, pieces, table_.offset + rows[first].row * table_.row_bytes);
    if (errno != 0) refuse_file(name_, "cannot be written");
    first = end;
  }
}

void FileRowWriter::sync() const {
  if (::fdatasync(table_.fd) != 0) refuse_file(name_, "cannot be flushed, what was written may be lost");
}

std::string RowJournal::path_of(const std::string& table_path) {
  const auto path = resolve_links(table_path);
  return parent_folder(path) + "." + base_name(path) + ".journal";
}

bool RowJournal::is_pending(const std::string& table_path, const FileTable& table) {
  const auto file = open_journal(path_of(table_path), O_RDONLY);
  JournalHeader header{};
  if (!file.valid() || !read_header(file.get(), header)) return false;
  const auto wanted = header_for(table, header.rows, header.data_checksum);
  return wanted.checksum == header.checksum;
}

std::int64_t RowJournal::recover(const std::string& table_path, const FileTable& table) {
  const auto path = path_of(table_path);
  const auto file = open_journal(path, O_RDWR);
  if (!file.valid() && errno == ENOENT) return 0;
  if (!file.valid()) refuse_path(path, "cannot be opened");
  Stored stored;
  if (read_header(file.get(), stored.header)) {
    if (header_for(table, stored.header.rows, stored.header.data_checksum).checksum != stored.header.checksum)
      throw FileError("'" + base_name(path) + "' holds rows of another table than '" + base_name(table_path) +
                      "', which may have replaced it; remove the journal if this table is whole");
    if (!read_rows(file.get(), stored)) stored.rows.clear();
  }
  std::vector<RowBytes> rows;
  if (std::ranges::any_of(stored.rows, [&](auto row) { return row < 0 || row >= table.rows; }))
    throw FileError("'" + base_name(path) + "' is damaged: it names rows that '" + base_name(table_path) +
                    "' does not have");
  for (std::size_t k = 0; k < stored.rows.size(); ++k)
    rows.push_back({stored.rows[k], stored.bytes.data() + static_cast<std::int64_t>(k) * table.row_bytes});
  FileRowWriter(table, base_name(table_path)).write(rows);
  if (::unlink(path.c_str()) != 0) refuse_path(path, "cannot be removed");
  return std::ssize(rows);
}

RowJournal::RowJournal(const std::string& table_path, const FileTable& table)
    : table_(table),
      path_(path_of(table_path)),
      name_(base_name(path_)),
      file_(open_journal(path_, O_RDWR | O_CREAT)) {
  if (!file_.valid()) refuse_path(path_, "cannot be created");
}

void RowJournal::store(std::span<const RowBytes> rows) {
  clear();
  const SizeSignalBlocked blocked;
  std::vector<std::int64_t> numbers;
  std::vector<iovec> pieces(1);
  for (const auto& [row, bytes] : rows) {
    numbers.push_back(row);
    pieces.push_back(piece_of(bytes, static_cast<std::size_t>(table_.row_bytes)));
  }
  pieces.front() = piece_of(numbers.data(), numbers.size() * sizeof(numbers.front()));
  std::uint32_t checksum = 0;
  for (const auto& piece : pieces) checksum = checksum_of(checksum, piece.iov_base, piece.iov_len);
  errno = write_pieces(file_.get(), pieces, kJournalData);
  if (errno != 0) refuse_file(name_, "cannot be written");
  const auto header = header_for(table_, std::ssize(rows), checksum);
  std::array pieces_of_header{piece_of(&header, sizeof(header))};
  errno = write_pieces(file_.get(), pieces_of_header, 0);
  if (errno != 0) refuse_file(name_, "cannot be written");
}

void RowJournal::clear() const {
  const SizeSignalBlocked blocked;
  constexpr JournalHeader none{};
  std::array pieces{piece_of(&none, sizeof(none))};
  errno = write_pieces(file_.get(), pieces, 0);
  if (errno != 0) refuse_file(name_, "cannot be written");
}

void RowJournal::remove() const { ::unlink(path_.c_str()); }

}  // namespace speedtorch

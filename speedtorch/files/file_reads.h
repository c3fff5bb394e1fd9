/// Which reads bring the named rows of a file: pure functions, and what performs the reads.
///
/// A row that is named several times is read once, and rows that lie on the same or on neighbouring pages
/// come with one read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace speedtorch {

/// Rows in an open file: row i is the `row_bytes` bytes from `offset + i * row_bytes`.
struct FileTable {
  int fd = -1;
  std::int64_t offset = 0;  ///< of the first row in the file
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  [[nodiscard]] std::int64_t end() const { return offset + rows * row_bytes; }
};

/// An entry of the index: which row, and where in the result it goes.
struct NamedRow {
  std::int64_t row;
  std::int64_t position;
};

/// Bytes [offset, offset + bytes) of the file, for the entries [first, last) of ReadPlan::named.
struct FileRead {
  std::int64_t offset, bytes;
  std::int64_t first, last;
};

struct ReadPlan {
  std::vector<NamedRow> named;  ///< ascending by row
  std::vector<FileRead> reads;  ///< ascending by offset
};

/// A read of several rows has at most so many bytes, which is the room it is read into before the rows are
/// copied to their places.
constexpr std::int64_t most_joined_bytes = 32 << 10;

/// @param index of `count` entries, each of which names a row
template <class Index>
ReadPlan plan_reads(const Index* index, std::int64_t count, const FileTable& table);

/// What is read, and where the rows go: row `named[k].row` to `out + named[k].position * row_bytes`.
struct ReadJob {
  FileTable table;
  const ReadPlan* plan;
  std::byte* out;

  /// True where the read brings one row, which is read to its first place.
  [[nodiscard]] bool is_direct(const FileRead& read) const;
  /// Where such a read goes to.
  [[nodiscard]] std::byte* first_place(const FileRead& read) const;
  /// Copies the read's rows to their places; `data` is the read's first byte.
  void deliver(const FileRead& read, const std::byte* data) const;
};

/// Performs reads. One thread at a time.
class FileReader {
 public:
  FileReader() = default;
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;
  virtual ~FileReader() = default;
  /// Returns when all rows are at their places.
  /// @throws FileError where a read fails or meets the end of the file; then nothing is still being written
  virtual void read(const ReadJob& job) = 0;
};

/// @throws FileError, always: the read of so many bytes failed with that error number, or met the file's end
/// where it is 0.
[[noreturn]] void refuse_read(std::int64_t offset, std::int64_t bytes, int error);

/// A reader by io_uring with at most `depth` reads in flight; null where this program or this system has
/// none, and then `why` says which.
std::unique_ptr<FileReader> make_ring_reader(int depth, std::string& why);

/// A reader by posix_fadvise and pread: tells the system of up to `depth` reads ahead, then takes them one by
/// one.
std::unique_ptr<FileReader> make_advice_reader(int depth);

}  // namespace speedtorch

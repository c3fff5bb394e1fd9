/// Plans the reads that bring the requested rows of a file, and performs them.
///
/// A row that occurs several times is read once. Rows on the same page or on neighbouring pages share one
/// read.
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
  std::int64_t offset = 0;  ///< of the first row, from the file's start
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  [[nodiscard]] std::int64_t end() const { return offset + rows * row_bytes; }
};

/// An entry of the index: the row, and its position in the result.
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

/// The maximum size of a read of several rows, and of the buffer from which the rows are then copied to their
/// places.
constexpr std::int64_t most_joined_bytes = 32 << 10;

/// @param index `count` valid row numbers
template <class Index>
ReadPlan plan_reads(const Index* index, std::int64_t count, const FileTable& table);

/// The reads, and the places of the rows: row `named[k].row` goes to `out + named[k].position * row_bytes`.
struct ReadJob {
  FileTable table;
  const ReadPlan* plan;
  std::byte* out;

  /// True if the read brings a single row, which goes straight to its first place.
  [[nodiscard]] bool is_direct(const FileRead& read) const;
  /// The destination of such a read.
  [[nodiscard]] std::byte* first_place(const FileRead& read) const;
  /// Copies the read's rows to their places. `data` is the read's first byte.
  void deliver(const FileRead& read, const std::byte* data) const;
};

/// Performs reads. Not thread-safe.
class FileReader {
 public:
  FileReader() = default;
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;
  virtual ~FileReader() = default;
  /// Returns when all rows are at their places.
  /// @throws FileError if a read fails or reaches the end of the file; by then no read is in flight
  virtual void read(const ReadJob& job) = 0;
};

/// @throws FileError always: reading these bytes failed with that error number, or, for 0, reached the file's
/// end
[[noreturn]] void refuse_read(std::int64_t offset, std::int64_t bytes, int error);

/// Returns a reader by io_uring with at most `depth` reads in flight. Returns null if the program or the
/// system has no io_uring; then `why` says which.
std::unique_ptr<FileReader> make_ring_reader(int depth, std::string& why);

/// Returns a reader by posix_fadvise and pread: it announces up to `depth` reads and then performs them one
/// by one.
std::unique_ptr<FileReader> make_advice_reader(int depth);

}  // namespace speedtorch

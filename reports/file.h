/// Report files: written whole or not at all, read with a bound.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "reports/record.h"

namespace stbench::reports {

/// An open file descriptor that closes itself.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A destination claimed before measuring, so that one that cannot be written is said before, not after.
///
/// The text goes to a temporary file in the destination's folder (one without a name where the file system
/// can) and takes the destination's place when it is complete and on disk: at each moment the destination is
/// what it was or the whole new report. "-" is the standard output; what is neither a file nor absent (a
/// pipe, a terminal) is written in place.
class ReportFile {
 public:
  /// How the temporary file is made: `named` is for file systems that have no files without a name (and for
  /// tests).
  enum class Temporary { unnamed_where_possible, named };

  /// @throws ReportError naming the path, the system's reason and what would be right: empty path, no such
  /// folder, not
  ///   writable, a folder.
  explicit ReportFile(std::string path, Temporary temporary = Temporary::unnamed_where_possible);
  /// Removes what is not complete; the destination is left as it was.
  ~ReportFile();
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  /// Once; afterwards the destination holds exactly the text.
  /// @throws ReportError where the text cannot be written whole: the destination is as it was.
  /// @throws std::logic_error at the second call.
  void write(std::string_view text);

 private:
  void claim_in_place();
  void claim_temporary(Temporary temporary);
  void claim_named();
  void publish();

  std::string path_;       // as the user gave it, for messages
  std::string target_;     // behind symbolic links
  std::string folder_;     // of the target
  std::string temporary_;  // empty while it has no name
  bool replaces_ = false;  // the target is replaced, not written in place
  bool written_ = false;
  FileDescriptor file_;
};

/// 128 MiB: what no report reaches, and what is read within seconds and a gigabyte whatever it holds.
inline constexpr std::size_t kLargestReport = std::size_t{1} << 27;

/// The whole file.
/// @throws ReportError naming the path and the system's reason, or that it is larger than `largest` bytes.
std::string read_file(const std::string& path, std::size_t largest = kLargestReport);

/// Reads a report: the lines of --events where it begins as they do, JSON where the first character is `{` or
/// `[`, else CSV.
/// @throws ReportError naming the path, the place and what would be right.
Report read_report(const std::string& path);

}  // namespace stbench::reports

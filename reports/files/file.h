/// Report files: written atomically, read with a size limit.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "reports/record.h"
#include "speedtorch/system/unfinished.h"

namespace stbench::reports {

/// A destination opened before measuring, so that an unwritable one fails before, not after.
///
/// The text goes to a temporary file in the destination's folder (one without a name if the file system has
/// them). When it is complete and on disk, it replaces the destination atomically. "-" is the standard
/// output; a pipe or a terminal is written in place.
class ReportFile {
 public:
  /// @throws ReportError naming the path, the system's reason and what would be right: empty path, no such
  /// folder, not writable, a folder.
  ///
  /// Removes temporary files of killed processes beside the destination, and says so on stderr. If it is
  /// destroyed before write, the destination is unchanged.
  explicit ReportFile(std::string path,
                      speedtorch::Temporary temporary = speedtorch::Temporary::unnamed_where_possible);
  /// Once; afterwards the destination holds exactly the text.
  /// @throws ReportError if the text cannot be written whole; the destination is then unchanged.
  /// @throws std::logic_error at the second call.
  void write(std::string_view text);

 private:
  void claim_in_place();
  void claim_temporary(speedtorch::Temporary temporary);
  void publish();

  std::string path_;    // as the user gave it, for messages
  std::string target_;  // behind symbolic links
  bool written_ = false;
  speedtorch::Descriptor in_place_;
  std::optional<speedtorch::UnfinishedFile> file_;
};

/// The destination of a path, claimed; null for an empty path. @throws ReportError as ReportFile does.
std::unique_ptr<ReportFile> claimed(const std::string& path);

/// Removes what killed processes left that were writing `path`, and says so on stderr.
void remove_leftovers_and_warn(const std::string& path);

/// 128 MiB: no report reaches it, and any content of that size is read within seconds and a gigabyte.
inline constexpr std::size_t kLargestReport = std::size_t{1} << 27;

/// The whole file.
/// @throws ReportError naming the path and the system's reason, or that it is larger than `largest` bytes.
std::string read_file(const std::string& path, std::size_t largest = kLargestReport);

/// Reads a report: the lines of --events if it begins as they do, JSON if the first character is `{` or `[`,
/// else CSV.
/// @throws ReportError naming the path, the place and what would be right.
Report read_report(const std::string& path);

}  // namespace stbench::reports

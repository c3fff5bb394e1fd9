/// A file that appears under its name once it is whole, or never.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "speedtorch/placement.h"
#include "speedtorch/system/descriptor.h"
#include "speedtorch/system/unfinished.h"

namespace speedtorch {

/// @throws FileError always, with errno: "'<name>' <what>: <the system's message for errno>"
[[noreturn]] void refuse_file(const std::string& name, const std::string& what);
/// The same for a known path, which the error has too. The message names its last part.
[[noreturn]] void refuse_path(const std::string& path, const std::string& what);
/// For a path at which there is no regular file. The error's number is EISDIR for a folder, else 0.
/// @param mode of stat() @throws FileError always: "'<name>' <what>"
[[noreturn]] void refuse_irregular(const std::string& path, mode_t mode, const std::string& what);

/// Removes the leftovers of killed processes that were writing `path`. A warning (TORCH_WARN) names each.
void remove_leftovers_and_warn(const std::string& path);

/// Until publish() the file has no name, or a temporary name in the same folder, which the destructor
/// removes. All functions throw FileError.
class NewFile {
 public:
  /// Fails at once if the name is taken.
  explicit NewFile(const std::string& path, Temporary temporary = Temporary::unnamed_where_possible);

  /// Sets the length. Fails if RLIMIT_FSIZE is below it, if fewer bytes are free, or, for `reserved`, if the
  /// disk does not give them.
  void resize(std::int64_t bytes, Space space) const;
  void write(std::string_view bytes, std::int64_t offset) const;
  /// Another descriptor of the file, which outlives this object.
  [[nodiscard]] Descriptor duplicate() const;

  /// Waits until the content is on the disk and then gives the file its name. Never replaces another file.
  void publish();

 private:
  friend class Replacement;
  struct OverAny {};
  NewFile(const std::string& path, Temporary temporary, OverAny);
  void check_free(std::int64_t bytes) const;
  void publish_by(int (UnfinishedFile::*way)(), const char* refusal);

  [[noreturn]] void refuse(const std::string& what) const;

  std::string path_;
  std::string folder_path_;
  UnfinishedFile file_;
};

/// A new file that replaces the one at `path`, if there is one, and keeps its permissions. A symbolic link
/// stays: the file that it points to is replaced or created. All functions throw FileError.
class Replacement {
 public:
  /// Fails at once if something other than a regular file has the name.
  explicit Replacement(const std::string& path, Temporary temporary = Temporary::unnamed_where_possible);

  /// Writes behind all that was appended so far.
  void append(std::string_view bytes);
  void publish();

 private:
  friend void replace_file(const std::string& path, std::string_view bytes);

  NewFile file_;
  std::int64_t end_ = 0;
};

/// Writes a file that replaces the one of that name, if there is one. At each moment the name belongs to the
/// whole old file or to the whole new one. @throws FileError
void replace_file(const std::string& path, std::string_view bytes);

}  // namespace speedtorch

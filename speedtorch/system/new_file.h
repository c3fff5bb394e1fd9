/// A file that appears under its name when it is whole, or never.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "speedtorch/placement.h"
#include "speedtorch/system/descriptor.h"
#include "speedtorch/system/unfinished.h"

namespace speedtorch {

/// @throws FileError, always: "'<name>' <what>: <the system's answer in errno>"
[[noreturn]] void refuse_file(const std::string& name, const std::string& what);

/// Removes what killed processes left that were writing `path`. A warning of LibTorch's (TORCH_WARN) names
/// what was removed.
void remove_leftovers_and_warn(const std::string& path);

/// Until publish() the file has no name, or a temporary one in the same folder that the destructor removes.
/// All functions throw FileError.
class NewFile {
 public:
  /// Refused at once where the name is taken.
  explicit NewFile(const std::string& path, Temporary temporary = Temporary::unnamed_where_possible);

  /// Its length. Refused where the limit on file sizes (RLIMIT_FSIZE) is below it or fewer bytes are free,
  /// and for `reserved` where the disk does not give them.
  void resize(std::int64_t bytes, Space space) const;
  void write(std::string_view bytes, std::int64_t offset) const;
  /// Another descriptor of the file, which outlives this object.
  [[nodiscard]] Descriptor duplicate() const;

  /// Waits until the content is on the disk and then gives the file its name; never replaces another.
  void publish();

 private:
  friend class Replacement;
  struct OverAny {};
  NewFile(const std::string& path, Temporary temporary, OverAny);
  void check_free(std::int64_t bytes) const;
  void publish_by(int (UnfinishedFile::*way)(), const char* refusal);

  std::string name_;
  std::string folder_path_;
  UnfinishedFile file_;
};

/// A new file that takes the place of the one at `path`, if there is one, and can be used by the same users.
/// A symbolic link stays one: the file that it leads to is replaced or made. All functions throw FileError.
class Replacement {
 public:
  /// Refused at once where something other than a regular file has the name.
  explicit Replacement(const std::string& path, Temporary temporary = Temporary::unnamed_where_possible);

  [[nodiscard]] const NewFile& file() const { return file_; }
  void publish();

 private:
  NewFile file_;
};

/// Writes a file that takes the place of the one of that name, where there is one: it is the old or the new
/// one, whole, whatever happens meanwhile. @throws FileError
void replace_file(const std::string& path, std::string_view bytes);

}  // namespace speedtorch

/// A file that appears under its name when it is whole, or never.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "speedtorch/mapping.h"
#include "speedtorch/placement.h"

namespace speedtorch {

/// What follows the last '/' of a path: how messages name files.
std::string base_name(const std::string& path);

/// @throws FileError, always: "'<name>' <what>: <the system's answer in errno>"
[[noreturn]] void refuse_file(const std::string& name, const std::string& what);

/// Until publish() the file has no name, or a temporary one in the same folder that the destructor removes.
/// All functions throw FileError.
class NewFile {
 public:
  /// `unnamed` leaves nothing behind even where the process is killed, and falls back to `temporary` where
  /// the file system cannot do it (NFS, FAT, overlays before Linux 6.3).
  enum class Until { unnamed, temporary };

  /// Refused at once where the name is taken.
  explicit NewFile(const std::string& path, Until until = Until::unnamed);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Its length. Refused where the limit on file sizes (RLIMIT_FSIZE) is below it or fewer bytes are free,
  /// and for `reserved` where the disk does not give them.
  void resize(std::int64_t bytes, Space space) const;
  void write(std::string_view bytes, std::int64_t offset) const;
  /// Another descriptor of the file, which outlives this object.
  [[nodiscard]] Descriptor duplicate() const;

  /// Lets those use the file who may use `old`, as far as this process may say so.
  void take_access(const struct stat& old) const;

  /// Waits until the content is on the disk and then gives the file its name; never replaces another.
  void publish();

 private:
  [[nodiscard]] int open_in_folder(Until until);
  void check_free(std::int64_t bytes) const;
  [[nodiscard]] int give_name() const;

  std::string name_;
  std::string folder_path_;
  Descriptor folder_;
  std::string temporary_;  ///< its name now; empty where it has none
  Descriptor file_;
};

/// A new file that takes the place of the one at `path`, if there is one, and can be used by the same users.
/// A symbolic link stays one: the file that it leads to is replaced or made. All functions throw FileError.
class Replacement {
 public:
  /// Refused at once where something other than a regular file has the name.
  explicit Replacement(const std::string& path);

  [[nodiscard]] const NewFile& file() const { return file_; }
  void publish();

 private:
  std::string path_;
  std::string beside_;  ///< its name between its own publish() and the replacement
  NewFile file_;
};

/// Writes a file that takes the place of the one of that name, where there is one: it is the old or the new
/// one, whole, whatever happens meanwhile. @throws FileError
void replace_file(const std::string& path, std::string_view bytes);

}  // namespace speedtorch

/// Files and folders that are being written. Until they are whole, they lie beside their final place under a
/// temporary name or none. No LibTorch, because reports are written this way too.
///
/// A killed process leaves behind what has a temporary name: `.NAME.new-` and 16 hexadecimal digits, where
/// NAME is the first 200 bytes of the final name. The writer holds a lock (flock) on each, which ends with
/// the process. So remove_leftovers() can tell a dead process's files from a living one's.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "speedtorch/system/descriptor.h"

namespace speedtorch {

/// `unnamed_where_possible` leaves nothing behind even if the process is killed before it publishes the file.
/// It falls back to `named` on file systems without unnamed files (NFS, FAT, overlays before Linux 6.3).
enum class Temporary { unnamed_where_possible, named };

/// The path up to and including its last '/', or "./".
std::string parent_folder(const std::string& path);

/// The part after the last '/' of a path.
std::string base_name(const std::string& path);

/// The file at the end of symbolic links. It need not exist yet.
std::string resolve_links(const std::string& path);

/// Gives a file the mode, group and owner of `old`, as far as this process may. If the group cannot be kept,
/// the new group does not get its rights.
void copy_access(int fd, const struct stat& old);

/// Removes what killed processes left while writing `path`, and returns the names. Keeps the files of living
/// processes, files that this process may not open or remove, and all files on file systems without locks.
std::vector<std::string> remove_leftovers(const std::string& path);

/// Functions return 0 or an error number (errno).
class UnfinishedFile {
 public:
  /// Opens the file for reading and writing, with the mode `mode` less the umask. If that fails, error() is
  /// not 0 and no other function may be called.
  UnfinishedFile(const std::string& path, Temporary temporary, mode_t mode = 0666);
  ~UnfinishedFile();  ///< removes the file if it is unpublished
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] int get() const { return file_.get(); }

  /// Gives the file its name. Returns EEXIST if the name is taken.
  [[nodiscard]] int publish();
  /// Replaces the file of that name, if there is one. At each moment the name belongs to the old file or to
  /// this one.
  [[nodiscard]] int replace();
  /// Waits until the name is on the disk, on file systems that support it.
  [[nodiscard]] int sync_folder() const;

 private:
  void open_named(mode_t mode);
  void settle();

  std::string name_;
  Descriptor folder_;
  std::string temporary_;  ///< its current name; empty if it has none or its own
  Descriptor file_;
  int error_ = 0;
};

/// A folder that is being written. It has a temporary name from the start. The destructor removes it with its
/// contents.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(const std::string& path, mode_t mode = 0777);
  ~UnfinishedFolder();
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  [[nodiscard]] int error() const { return error_; }
  /// The folder's current path; after replace(), that of the folder that it replaced.
  [[nodiscard]] const std::string& path() const { return temporary_; }

  [[nodiscard]] int publish();
  /// On file systems that cannot exchange two folders, nothing has the name for the instant between two
  /// renames.
  [[nodiscard]] int replace();

 private:
  std::string path_;
  std::string temporary_;  ///< empty once it has its name and nothing is left
  Descriptor lock_;
  int error_ = 0;
};

/// Waits until the names in a folder are on the disk. Returns 0, also on file systems that cannot do it, or
/// an error number.
int sync_names(int folder);

}  // namespace speedtorch

/// Files and folders that are being written: beside the place where they will be, under no name or a
/// temporary one, until they are whole. No LibTorch: reports are written so too.
///
/// A process that is killed leaves what has a temporary name. These names are `.NAME.new-` and 16 hexadecimal
/// digits, where NAME is the one that the file would have had (its first 200 bytes). The writer holds a lock
/// (flock) on each, which ends with the process, so that remove_leftovers() can tell a dead process's from a
/// living one's.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "speedtorch/system/descriptor.h"

namespace speedtorch {

/// `unnamed_where_possible` leaves nothing behind even where the process is killed before it publishes the
/// file, and falls back to `named` where the file system cannot do it (NFS, FAT, overlays before Linux 6.3).
enum class Temporary { unnamed_where_possible, named };

/// The path up to and with its last '/', or "./".
std::string parent_folder(const std::string& path);

/// What follows the last '/' of a path.
std::string base_name(const std::string& path);

/// The file at the end of symbolic links, which need not exist yet.
std::string resolve_links(const std::string& path);

/// Gives a file the mode, group and owner of `old`, as far as this process may. A group that cannot be kept
/// does not lend its rights to another.
void copy_access(int fd, const struct stat& old);

/// Removes what killed processes left that were writing `path`, and returns the names. Left alone: what a
/// living process writes, what this process may not open or remove, and everything where the file system has
/// no locks.
std::vector<std::string> remove_leftovers(const std::string& path);

/// Functions return 0 or the system's error number.
class UnfinishedFile {
 public:
  /// Opens it for reading and writing, with the rights of `mode` less the umask. Where that fails, error() is
  /// not 0 and nothing else may be called.
  UnfinishedFile(const std::string& path, Temporary temporary, mode_t mode = 0666);
  ~UnfinishedFile();  ///< removes it unless it has its name
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] int get() const { return file_.get(); }

  /// Gives it its name; EEXIST where that is taken.
  [[nodiscard]] int publish();
  /// Takes the place of the file of that name, if there is one: at each moment the name is the old file's or
  /// this one's.
  [[nodiscard]] int replace();
  /// Waits until the name is on the disk, where the file system can.
  [[nodiscard]] int sync_folder() const;

 private:
  void open_named(mode_t mode);
  void settle();

  std::string name_;
  Descriptor folder_;
  std::string temporary_;  ///< its name now; empty where it has none or its own
  Descriptor file_;
  int error_ = 0;
};

/// The same for a folder, which has a temporary name from the start. The destructor removes it with all that
/// is in it.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(const std::string& path, mode_t mode = 0777);
  ~UnfinishedFolder();
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  [[nodiscard]] int error() const { return error_; }
  /// Where the folder is now; after replace(), what it replaced.
  [[nodiscard]] const std::string& path() const { return temporary_; }

  [[nodiscard]] int publish();
  /// Where the file system cannot exchange two folders, nothing has the name for the instant between two
  /// renames.
  [[nodiscard]] int replace();

 private:
  std::string path_;
  std::string temporary_;  ///< empty once it has its name and nothing is left
  Descriptor lock_;
  int error_ = 0;
};

/// Waits until the names in a folder are on the disk. 0, also where the file system cannot, or the error's
/// number.
int sync_names(int folder);

}  // namespace speedtorch

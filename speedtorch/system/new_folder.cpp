#include "speedtorch/system/new_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "speedtorch/system/new_file.h"

namespace speedtorch {
namespace {

/// Returns the path without slashes at its end. Fails if it exists.
std::string require_free(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return path;
  errno = EEXIST;
  refuse_path(path, "cannot be created");
}

/// Waits until the names in a folder are on the disk.
void sync_folder(const std::string& folder, const std::string& name) {
  const Descriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (open.valid()) errno = sync_names(open.get());
  if (!open.valid() || errno != 0) refuse_file(name, "cannot be flushed to its disk");
}

}  // namespace

NewFolder::NewFolder(const std::string& path) : path_(require_free(path)), folder_(path_) {
  errno = folder_.error();
  if (errno != 0) refuse_path(path_, "cannot be created");
  remove_leftovers_and_warn(path_);
}

void NewFolder::publish() {
  const auto name = base_name(path_);
  sync_folder(path(), name);
  errno = folder_.publish();
  if (errno != 0) refuse_path(path_, "cannot be given its name");
  sync_folder(parent_folder(path_), name);
}

}  // namespace speedtorch

#include "speedtorch/new_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>

#include "speedtorch/new_file.h"

namespace speedtorch {
namespace {

std::string without_slashes_at_end(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

bool is_there(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

/// By chance, not by the process's number, which is the same again in the next container.
std::string temporary_beside(const std::string& path) {
  std::random_device random;
  return parent_of(path) + ".speedtorch-" + std::to_string(random()) + std::to_string(random());
}

/// Waits until the names in a folder are on the disk.
void sync_folder(const std::string& folder, const std::string& name) {
  const Descriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (open.get() < 0 || (::fsync(open.get()) != 0 && errno != EINVAL))
    refuse_file(name, "cannot be brought to its disk");
}

/// 0 where it has its name.
int rename_to_new(const std::string& from, const std::string& to) {
  const int renamed = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  if (renamed == 0 || errno == EEXIST) return renamed;
  if (!is_there(to)) return std::rename(from.c_str(), to.c_str());  // NFS has no such rename
  errno = EEXIST;
  return -1;
}

}  // namespace

NewFolder::NewFolder(const std::string& path)
    : path_(without_slashes_at_end(path)), temporary_(temporary_beside(path_)) {
  if (is_there(path_)) {
    errno = EEXIST;
    refuse_file(base_name(path_), "cannot be made");
  }
  if (::mkdir(temporary_.c_str(), 0777) != 0) refuse_file(base_name(path_), "cannot be made");
}

NewFolder::~NewFolder() {
  std::error_code no_matter;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, no_matter);
}

void NewFolder::publish() {
  const auto name = base_name(path_);
  sync_folder(temporary_, name);
  if (rename_to_new(temporary_, path_) != 0) refuse_file(name, "cannot be given its name");
  temporary_.clear();
  sync_folder(parent_of(path_), name);
}

}  // namespace speedtorch

#include "speedtorch/system/unfinished.h"

#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string_view>
#include <system_error>

namespace speedtorch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 16;
constexpr std::size_t kLongestName = 200;  // a temporary name is longer, and file systems allow 255 bytes
constexpr int kMostTries = 8;

std::string stem_of(const std::string& name) { return "." + name.substr(0, kLongestName) + ".new-"; }

/// Random, because a process ID may repeat in the next container.
std::string temporary_name(const std::string& name) {
  std::random_device random;
  std::array<char, kDigits + 1> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x%08x", random(), random());
  return stem_of(name) + digits.data();
}

bool is_temporary(std::string_view entry, std::string_view stem) {
  return entry.size() == stem.size() + kDigits && entry.starts_with(stem) &&
         entry.find_first_not_of("0123456789abcdef", stem.size()) == std::string_view::npos;
}

/// Takes the lock that says that a process is at work here. It ends with the process. On file systems without
/// locks no process gets one, and none removes anything.
int lock(int fd) {
  int answer = 0;
  do answer = ::flock(fd, LOCK_EX | LOCK_NB);
  while (answer != 0 && errno == EINTR);
  return answer == 0 ? 0 : errno;
}

bool is_at(int fd, int folder, const std::string& name) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/// True if the name still belongs to this process's file. Another process may have removed it as a leftover
/// in the instant before the lock.
bool is_claimed(int fd, int folder, const std::string& name) {
  return lock(fd) != EWOULDBLOCK && is_at(fd, folder, name);
}

/// A folder that may be written but not read is good enough to create a file in it.
Descriptor open_folder(const std::string& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() && errno == EACCES)
    return Descriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return folder;
}

std::string link_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

/// Returns 0 if it renamed `from` to `to`, which nothing may have as a name.
int rename_to_new(int folder, const std::string& from, const std::string& to) {
  return ::renameat2(folder, from.c_str(), folder, to.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
}

bool is_there(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

/// Opens and locks what a dead process left. Returns nothing if a living process holds it.
Descriptor open_leftover(int folder, const std::string& name) {
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  // NFS locks only files that are open for writing.
  Descriptor found(::openat(folder, name.c_str(), O_RDWR | kFlags));
  if (!found.valid() && errno == EISDIR)
    found = Descriptor(::openat(folder, name.c_str(), O_RDONLY | kFlags));
  struct stat state {};
  if (!found.valid() || ::fstat(found.get(), &state) != 0) return {};
  if (!S_ISREG(state.st_mode) && !S_ISDIR(state.st_mode)) return {};
  // A living process may have renamed it between the open and the lock.
  if (lock(found.get()) != 0 || !is_at(found.get(), folder, name)) return {};
  return found;
}

}  // namespace

std::string parent_folder(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "./" : path.substr(0, slash + 1);
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string resolve_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as the system follows
  fs::path file = path;
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(file, error); ++links) {
    const fs::path target = fs::read_symlink(file, error);
    if (error) break;
    file = file.parent_path() / target;  // an absolute target replaces the path
  }
  return file.string();
}

void copy_access(int fd, const struct stat& old) {
  constexpr mode_t kAccess = 0777, kGroup = 0070;
  mode_t mode = old.st_mode & kAccess;
  if (::fchown(fd, static_cast<uid_t>(-1), old.st_gid) != 0) mode &= ~kGroup | (mode & S_IRWXO) << 3;
  // Without this, root's new file would change its owner. Other users cannot keep another owner.
  [[maybe_unused]] const int owned = ::fchown(fd, old.st_uid, static_cast<gid_t>(-1));
  [[maybe_unused]] const int allowed = ::fchmod(fd, mode);  // file systems without modes refuse
}

std::vector<std::string> remove_leftovers(const std::string& path) {
  const std::string parent = parent_folder(path), stem = stem_of(base_name(path));
  std::vector<std::string> found, removed;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error))
    if (is_temporary(entry->path().filename().string(), stem))
      found.push_back(entry->path().filename().string());
  if (found.empty()) return removed;
  const Descriptor folder = open_folder(parent);
  for (const std::string& name : found) {
    const Descriptor leftover = open_leftover(folder.get(), name);
    if (leftover.valid() && fs::remove_all(parent + name, error) > 0 && !error) removed.push_back(name);
  }
  return removed;
}

int sync_names(int folder) {
  if (::fsync(folder) == 0) return 0;
  // EBADF: the folder is not readable, so it was opened with O_PATH.
  return errno == EINVAL || errno == EROFS || errno == ENOTSUP || errno == EBADF ? 0 : errno;
}

UnfinishedFile::UnfinishedFile(const std::string& path, Temporary temporary, mode_t mode)
    : name_(base_name(path)), folder_(open_folder(parent_folder(path))) {
  if (!folder_.valid()) {
    error_ = errno;
    return;
  }
  // It gets its name through /proc, which some sandboxes lack.
  if (temporary == Temporary::unnamed_where_possible && ::access("/proc/self/fd", X_OK) == 0)
    file_ = Descriptor(::openat(folder_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
  if (file_.valid()) {
    lock(file_.get());  // for the time when it has a temporary name
  } else {
    open_named(mode);
  }
}

void UnfinishedFile::open_named(mode_t mode) {
  for (int tries = 0; tries < kMostTries; ++tries) {
    const std::string name = temporary_name(name_);
    Descriptor file(::openat(folder_.get(), name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode));
    if (!file.valid()) {
      error_ = errno;
      return;
    }
    file_ = std::move(file);
    temporary_ = name;
    if (is_claimed(file_.get(), folder_.get(), temporary_)) return;
  }
  error_ = EAGAIN;
}

UnfinishedFile::~UnfinishedFile() {
  if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
}

int UnfinishedFile::publish() {
  if (temporary_.empty()) {
    if (::linkat(AT_FDCWD, link_of(file_.get()).c_str(), folder_.get(), name_.c_str(), AT_SYMLINK_FOLLOW) !=
        0)
      return errno;
  } else if (const int error = rename_to_new(folder_.get(), temporary_, name_); error == EEXIST) {
    return error;
  } else if (error != 0) {  // NFS lacks this rename
    if (::linkat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str(), 0) != 0) return errno;
    ::unlinkat(folder_.get(), temporary_.c_str(), 0);
  }
  settle();
  return 0;
}

int UnfinishedFile::replace() {
  if (temporary_.empty()) {
    const std::string name = temporary_name(name_);
    if (::linkat(AT_FDCWD, link_of(file_.get()).c_str(), folder_.get(), name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return errno;
    temporary_ = name;
  }
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) return errno;
  settle();
  return 0;
}

/// The lock is for the temporary name only. Other descriptors of the file, such as a mapped table's, would
/// keep it.
void UnfinishedFile::settle() {
  temporary_.clear();
  ::flock(file_.get(), LOCK_UN);
}

int UnfinishedFile::sync_folder() const { return sync_names(folder_.get()); }

UnfinishedFolder::UnfinishedFolder(const std::string& path, mode_t mode) : path_(path) {
  const std::string parent = parent_folder(path);
  for (int tries = 0; tries < kMostTries; ++tries) {
    const std::string name = parent + temporary_name(base_name(path));
    if (::mkdir(name.c_str(), mode) != 0) {
      error_ = errno;
      return;
    }
    temporary_ = name;
    lock_ = Descriptor(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock_.valid() && is_claimed(lock_.get(), AT_FDCWD, name)) return;
    if (!lock_.valid() && errno != ENOENT) {
      error_ = errno;
      return;
    }
  }
  error_ = EAGAIN;
}

UnfinishedFolder::~UnfinishedFolder() {
  std::error_code no_matter;
  if (!temporary_.empty()) fs::remove_all(temporary_, no_matter);
}

int UnfinishedFolder::publish() {
  int error = rename_to_new(AT_FDCWD, temporary_, path_);
  if (error != 0 && error != EEXIST) {  // NFS lacks this rename
    if (is_there(path_)) return EEXIST;
    error = ::rename(temporary_.c_str(), path_.c_str()) == 0 ? 0 : errno;
  }
  if (error == 0) temporary_.clear();
  return error;
}

int UnfinishedFolder::replace() {
  if (::rename(temporary_.c_str(), path_.c_str()) == 0) {  // there was no folder, or an empty one
    temporary_.clear();
    return 0;
  }
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  const std::string old =
      temporary_ + "-old";  // not a leftover by its name: after a kill it is the only copy
  if (::rename(path_.c_str(), old.c_str()) != 0) return errno;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::rename(old.c_str(), path_.c_str());
    return error;
  }
  temporary_ = old;
  return 0;
}

}  // namespace speedtorch

#include "speedtorch/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

#include "speedtorch/error.h"
#include "speedtorch/limits.h"

namespace speedtorch {
namespace {

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

int open_folder(const std::string& path) {
  const int fd = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) refuse_file(base_name(path), "cannot be made, its folder cannot be opened");
  return fd;
}

/// Not mkostemp's, which would leave the file to its owner alone whatever the umask says.
std::string temporary_name() {
  std::random_device random;
  return ".speedtorch-" + std::to_string(random()) + std::to_string(random());
}

std::string link_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void refuse_file(const std::string& name, const std::string& what) {
  const std::string answer = std::strerror(errno);
  throw FileError("'" + name + "' " + what + ": " + answer);
}

NewFile::NewFile(const std::string& path, Until until)
    : name_(base_name(path)),
      folder_path_(folder_of(path)),
      folder_(open_folder(path)),
      file_(open_in_folder(until)) {}

int NewFile::open_in_folder(Until until) {
  struct stat taken {};
  const bool there = ::fstatat(folder_.get(), name_.c_str(), &taken, AT_SYMLINK_NOFOLLOW) == 0;
  if (there) errno = EEXIST;
  if (there || errno != ENOENT || name_.empty()) refuse_file(name_, "cannot be made");
  // The name is given through /proc, which some sandboxes lack.
  if (until == Until::unnamed && ::access("/proc/self/fd", X_OK) == 0) {
    const int fd = ::openat(folder_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
  }
  temporary_ = temporary_name();
  const int fd = ::openat(folder_.get(), temporary_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
  if (fd < 0) refuse_file(name_, "cannot be made");
  return fd;
}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
}

void NewFile::check_free(std::int64_t bytes) const {
  for (const auto& limit : disk_limits(folder_path_)) {
    if (limit.free < bytes) {
      throw FileError("'" + name_ + "' cannot be made: it needs " + std::to_string(bytes) + " bytes, " +
                      std::to_string(limit.free) + " are free; the limit is " + limit.name);
    }
  }
}

void NewFile::resize(std::int64_t bytes, Space space) const {
  check_free(bytes);  // before: beyond a limit the system ends the process by a signal
  if (::ftruncate(file_.get(), bytes) != 0)
    refuse_file(name_, "cannot be made " + std::to_string(bytes) + " bytes long");
  if (space == Space::sparse || bytes == 0) return;
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(file_.get(), 0, bytes);
  if (error == 0) return;
  errno = error;
  refuse_file(name_, "cannot be given " + std::to_string(bytes) + " bytes of its disk");
}

void NewFile::write(std::string_view bytes, std::int64_t offset) const {
  while (!bytes.empty()) {
    const auto written = ::pwrite(file_.get(), bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse_file(name_, "cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
}

Descriptor NewFile::duplicate() const {
  Descriptor another(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  if (another.get() < 0) refuse_file(name_, "cannot be opened again");
  return another;
}

int NewFile::give_name() const {
  const int folder = folder_.get();
  if (temporary_.empty())
    return ::linkat(AT_FDCWD, link_of(file_.get()).c_str(), folder, name_.c_str(), AT_SYMLINK_FOLLOW);
  const int renamed = ::renameat2(folder, temporary_.c_str(), folder, name_.c_str(), RENAME_NOREPLACE);
  if (renamed == 0 || errno == EEXIST) return renamed;
  return ::linkat(folder, temporary_.c_str(), folder, name_.c_str(), 0);  // NFS has no such rename
}

void NewFile::publish() {
  if (::fsync(file_.get()) != 0) refuse_file(name_, "cannot be brought to its disk");
  if (give_name() != 0) refuse_file(name_, "cannot be given its name");
  // Where the name was a rename's, nothing is left to remove, and that is no error.
  if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
  temporary_.clear();
  if (::fsync(folder_.get()) != 0 && errno != EINVAL) refuse_file(name_, "cannot be kept in its folder");
}

void replace_file(const std::string& path, std::string_view bytes) {
  const std::string fresh = path + ".new";
  std::remove(fresh.c_str());  // what a killed process left
  NewFile file(fresh);
  file.resize(static_cast<std::int64_t>(bytes.size()), Space::reserved);
  file.write(bytes, 0);
  file.publish();
  if (std::rename(fresh.c_str(), path.c_str()) == 0) return;
  const int refused = errno;
  std::remove(fresh.c_str());
  errno = refused;
  refuse_file(base_name(path), "cannot be replaced");
}

}  // namespace speedtorch

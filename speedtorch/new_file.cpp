#include "speedtorch/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "speedtorch/error.h"
#include "speedtorch/limits.h"
#include "speedtorch/size_signal.h"

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

/// The file at the end of symbolic links, which need not exist yet.
std::string behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as the system follows
  std::filesystem::path file = path;
  std::error_code error;
  for (int links = 0; links < kMostLinks && std::filesystem::is_symlink(file, error); ++links)
    file = file.parent_path() / std::filesystem::read_symlink(file, error);
  return file.string();
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

void NewFile::take_access(const struct stat& old) const {
  constexpr mode_t kAccess = 0777, kGroup = 0070;
  mode_t mode = old.st_mode & kAccess;
  // A group that cannot be kept must not lend its rights to another.
  if (::fchown(file_.get(), static_cast<uid_t>(-1), old.st_gid) != 0) mode &= ~kGroup | (mode & S_IRWXO) << 3;
  // Only root can keep another owner, and some file systems have no modes.
  [[maybe_unused]] const int owned = ::fchown(file_.get(), old.st_uid, static_cast<gid_t>(-1));
  [[maybe_unused]] const int allowed = ::fchmod(file_.get(), mode);
}

void NewFile::resize(std::int64_t bytes, Space space) const {
  check_free(bytes);
  const SizeSignalBlocked blocked;  // another thread may lower the limit meanwhile
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
  const SizeSignalBlocked blocked;
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

Replacement::Replacement(const std::string& path)
    : path_(behind_links(path)),
      beside_(path_ + ".new-" + std::to_string(std::random_device{}())),
      file_(beside_) {
  struct stat old {};
  if (::stat(path_.c_str(), &old) != 0) {
    if (errno == ELOOP) refuse_file(base_name(path), "cannot be replaced");
    return;
  }
  if (!S_ISREG(old.st_mode))
    throw FileError("'" + base_name(path) + "' is no regular file, so none replaces it");
  file_.take_access(old);
}

void Replacement::publish() {
  file_.publish();
  if (std::rename(beside_.c_str(), path_.c_str()) == 0) return;
  const int refused = errno;
  std::remove(beside_.c_str());
  errno = refused;
  refuse_file(base_name(path_), "cannot be replaced");
}

void replace_file(const std::string& path, std::string_view bytes) {
  Replacement replacement(path);
  replacement.file().resize(static_cast<std::int64_t>(bytes.size()), Space::reserved);
  replacement.file().write(bytes, 0);
  replacement.publish();
}

}  // namespace speedtorch

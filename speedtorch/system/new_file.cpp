#include "speedtorch/system/new_file.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "speedtorch/error.h"
#include "speedtorch/system/limits.h"
#include "speedtorch/system/size_signal.h"

namespace speedtorch {

namespace {

[[noreturn]] void refuse_with_errno(const std::string& name, const std::string& what,
                                    const std::string& path) {
  const int code = errno;
  throw FileError("'" + name + "' " + what + ": " + std::strerror(code), code, path);
}

}  // namespace

void refuse_file(const std::string& name, const std::string& what) { refuse_with_errno(name, what, {}); }

void refuse_path(const std::string& path, const std::string& what) {
  refuse_with_errno(base_name(path), what, path);
}

void refuse_irregular(const std::string& path, mode_t mode, const std::string& what) {
  throw FileError("'" + base_name(path) + "' " + what, S_ISDIR(mode) ? EISDIR : 0, path);
}

namespace {

const std::string& require_free_name(const std::string& path) {
  struct stat taken {};
  errno = 0;
  if (::lstat(path.c_str(), &taken) == 0) errno = EEXIST;
  if (base_name(path).empty()) errno = ENOENT;
  if (errno != ENOENT || base_name(path).empty()) refuse_path(path, "cannot be created");
  return path;
}

/// Returns the file at the end of the links of `path`.
std::string require_replaceable(const std::string& path) {
  struct stat old {};
  if (::stat(path.c_str(), &old) != 0) {
    if (errno == ELOOP) refuse_path(path, "cannot be replaced");
  } else if (!S_ISREG(old.st_mode)) {
    refuse_irregular(path, old.st_mode, "is not a regular file and cannot be replaced");
  }
  return resolve_links(path);
}

}  // namespace

void remove_leftovers_and_warn(const std::string& path) {
  for (const auto& name : remove_leftovers(path))
    TORCH_WARN("removed '", name, "', a leftover of a killed process");
}

NewFile::NewFile(const std::string& path, Temporary temporary, OverAny)
    : path_(path), folder_path_(parent_folder(path)), file_(path, temporary) {
  errno = file_.error();
  if (errno != 0) refuse("cannot be created");
  remove_leftovers_and_warn(path);
}

NewFile::NewFile(const std::string& path, Temporary temporary)
    : NewFile(require_free_name(path), temporary, OverAny{}) {}

void NewFile::refuse(const std::string& what) const { refuse_path(path_, what); }

void NewFile::check_free(std::int64_t bytes) const {
  for (const auto& limit : disk_limits(folder_path_)) {
    if (limit.free < bytes) {
      throw FileError("'" + base_name(path_) + "' cannot be created: it needs " + std::to_string(bytes) +
                      " bytes, " + std::to_string(limit.free) + " are free; the limit is " + limit.name);
    }
  }
}

void NewFile::resize(std::int64_t bytes, Space space) const {
  check_free(bytes);
  const SizeSignalBlocked blocked;  // another thread may lower the limit meanwhile
  if (::ftruncate(file_.get(), bytes) != 0)
    refuse("cannot be created " + std::to_string(bytes) + " bytes long");
  if (space == Space::sparse || bytes == 0) return;
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(file_.get(), 0, bytes);
  if (error == 0) return;
  errno = error;
  refuse("cannot reserve " + std::to_string(bytes) + " bytes of its disk");
}

void NewFile::write(std::string_view bytes, std::int64_t offset) const {
  const SizeSignalBlocked blocked;
  while (!bytes.empty()) {
    const auto written = ::pwrite(file_.get(), bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse("cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
}

Descriptor NewFile::duplicate() const {
  Descriptor another(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  if (another.get() < 0) refuse("cannot be opened again");
  return another;
}

void NewFile::publish_by(int (UnfinishedFile::*way)(), const char* refusal) {
  if (::fsync(file_.get()) != 0) refuse("cannot be flushed to its disk");
  errno = (file_.*way)();
  if (errno != 0) refuse(refusal);
  errno = file_.sync_folder();
  if (errno != 0) refuse("cannot be made durable in its folder");
}

void NewFile::publish() { publish_by(&UnfinishedFile::publish, "cannot be given its name"); }

Replacement::Replacement(const std::string& path, Temporary temporary)
    : file_(require_replaceable(path), temporary, NewFile::OverAny{}) {
  struct stat old {};
  if (::stat(path.c_str(), &old) == 0) copy_access(file_.file_.get(), old);
}

void Replacement::append(std::string_view bytes) {
  file_.write(bytes, end_);
  end_ += static_cast<std::int64_t>(bytes.size());
}

void Replacement::publish() { file_.publish_by(&UnfinishedFile::replace, "cannot be replaced"); }

void replace_file(const std::string& path, std::string_view bytes) {
  Replacement replacement(path);
  replacement.file_.resize(static_cast<std::int64_t>(bytes.size()), Space::reserved);
  replacement.append(bytes);
  replacement.publish();
}

}  // namespace speedtorch

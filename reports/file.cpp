#include "reports/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <system_error>

#include "reports/case_join.h"
#include "reports/csv.h"
#include "reports/destination.h"
#include "reports/error.h"
#include "reports/events.h"
#include "reports/json.h"
#include "reports/standard_output.h"

namespace stbench::reports {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0666;  // less the umask, as for any file a program makes

std::string reason_of(int error) { return std::generic_category().message(error); }

[[noreturn]] void refuse(std::string_view path, std::string_view why, std::string_view right) {
  throw ReportError(fmt::format("cannot write \"{}\": {}; {} would be right", path, why, right));
}

/// The folder's own state explains more than what opening a file in it says.
[[noreturn]] void refuse_folder(std::string_view path, const std::string& folder, int error) {
  struct stat state {};
  if (::stat(folder.c_str(), &state) != 0) {
    refuse(path, fmt::format("folder \"{}\": {}", folder, reason_of(errno)),
           "a path in a folder that exists");
  }
  if (!S_ISDIR(state.st_mode)) refuse(path, fmt::format("\"{}\" is no folder", folder), "a path in a folder");
  refuse(path, reason_of(error), "a path in a folder you may write to");
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Gives the new file the mode, group and owner of the old one. Only root can give a file to another owner, and
/// a group that cannot be kept must not lend its rights to another.
void keep_access(int fd, const struct stat& old) {
  constexpr mode_t kAccess = 0777, kGroup = 0070;
  mode_t mode = old.st_mode & kAccess;
  if (::fchown(fd, static_cast<uid_t>(-1), old.st_gid) != 0) mode &= ~kGroup | (mode & S_IRWXO) << 3;
  // Root's new file would not be the owner's any more; nobody else can do anything about it.
  [[maybe_unused]] const int given = ::fchown(fd, old.st_uid, static_cast<gid_t>(-1));
  [[maybe_unused]] const int kept = ::fchmod(fd, mode);  // refused by file systems that have no modes
}

std::string temporary_name(const std::string& folder) {
  std::random_device random;
  return fmt::format("{}/.stbench-{:08x}{:08x}", folder, random(), random());
}

void write_all(int fd, std::string_view text, const std::string& path) {
  if (const int error = write_whole(fd, text); error != 0)
    refuse(path, reason_of(error), "a place with room for the report");
}

/// A pipe or a terminal cannot be synchronised, which is no fault of the text.
void to_disk(int fd, const std::string& path) {
  if (::fsync(fd) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) {
    refuse(path, reason_of(errno), "a place with room for the report");
  }
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (valid()) ::close(fd_);
}

ReportFile::ReportFile(std::string path, Temporary temporary) : path_(std::move(path)) {
  if (path_.empty())
    throw ReportError("cannot write a report to \"\": a file name, or - for the output, would be right");
  if (path_ == "-") {
    require_standard_output();
    return;
  }
  target_ = destination_of(path_);
  folder_ = folder_of(target_);
  struct stat state {};
  const bool exists = ::stat(target_.c_str(), &state) == 0;
  if (!exists && errno == ELOOP) refuse(path_, reason_of(ELOOP), "a link that leads to a file");
  if (exists && S_ISDIR(state.st_mode)) refuse(path_, "it is a folder", "the name of a file in it");
  if (exists && ::access(target_.c_str(), W_OK) != 0)
    refuse(path_, reason_of(errno), "a file you may write to");
  if (fs::path(path_).filename().empty()) refuse(path_, "it names a folder", "the name of a file");
  if (exists && !S_ISREG(state.st_mode)) {
    claim_in_place();
  } else {
    claim_temporary(temporary);
    if (exists) keep_access(file_.get(), state);
  }
}

void ReportFile::claim_in_place() {
  file_ = FileDescriptor(::open(target_.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file_.valid()) refuse(path_, reason_of(errno), "a path you may write to");
}

void ReportFile::claim_temporary(Temporary temporary) {
  replaces_ = true;
  // Without a name it is gone with the process however that ends; to get its name later it needs /proc.
  if (temporary == Temporary::unnamed_where_possible && ::access("/proc/self/fd", X_OK) == 0) {
    file_ = FileDescriptor(::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode));
  }
  if (!file_.valid()) claim_named();
}

void ReportFile::claim_named() {
  const std::string name = temporary_name(folder_);
  file_ = FileDescriptor(::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, kMode));
  if (!file_.valid()) refuse_folder(path_, folder_, errno);
  temporary_ = name;
}

ReportFile::~ReportFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void ReportFile::write(std::string_view text) {
  if (std::exchange(written_, true)) throw std::logic_error("a report file is written once");
  if (path_ == "-") {
    std::fflush(stdout);
    return write_standard_output(text);
  }
  write_all(file_.get(), text, path_);
  to_disk(file_.get(), path_);
  if (replaces_) publish();
}

void ReportFile::publish() {
  if (temporary_.empty()) {
    const std::string name = temporary_name(folder_);
    const std::string unnamed = fmt::format("/proc/self/fd/{}", file_.get());
    if (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      refuse_folder(path_, folder_, errno);
    }
    temporary_ = name;
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) refuse_folder(path_, folder_, errno);
  temporary_.clear();
  const FileDescriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid())
    ::fsync(folder.get());  // the new name too; where the system cannot, the file is still whole
}

std::string read_file(const std::string& path, std::size_t largest) {
  const auto fail = [&](std::string_view why) {
    throw ReportError(
        fmt::format("cannot read \"{}\": {}; a report of this program would be right", path, why));
  };
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) fail(reason_of(errno));
  std::string text;
  std::array<char, std::size_t{1} << 16> block{};
  while (true) {
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(reason_of(errno));
    if (count == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
    if (text.size() > largest) fail(fmt::format("it is larger than {} bytes", largest));
  }
}

namespace {

Report report_of(const std::string& text, const std::string& path) {
  if (are_events(text)) return from_events(text, path);
  const std::size_t start = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  const std::size_t first = text.find_first_not_of(" \t\r\n", start);
  const bool is_json = first != std::string::npos && (text[first] == '{' || text[first] == '[');
  return is_json ? from_json(text, path) : from_csv(text, path);
}

}  // namespace

Report read_report(const std::string& path) {
  Report report = report_of(read_file(path), path);
  require_distinct(report, path);
  return report;
}

}  // namespace stbench::reports

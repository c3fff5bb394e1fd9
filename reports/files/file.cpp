#include "reports/files/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "reports/destination.h"
#include "reports/error.h"
#include "reports/files/case_join.h"
#include "reports/files/csv.h"
#include "reports/files/events.h"
#include "reports/files/json.h"
#include "reports/standard_output.h"

namespace stbench::reports {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(std::string_view path, std::string_view why, std::string_view right) {
  throw ReportError(fmt::format("cannot write \"{}\": {}; {} would be right", path, why, right));
}

/// The folder's own state explains more than what opening a file in it says.
[[noreturn]] void refuse_folder(std::string_view path, const std::string& target, int error) {
  fs::path folder = fs::path(target).parent_path();
  if (folder.empty()) folder = ".";
  struct stat state {};
  if (::stat(folder.c_str(), &state) != 0) {
    refuse(path, fmt::format("folder \"{}\": {}", folder.string(), system_reason(errno)),
           "a path in a folder that exists");
  }
  if (!S_ISDIR(state.st_mode))
    refuse(path, fmt::format("\"{}\" is no folder", folder.string()), "a path in a folder");
  refuse(path, system_reason(error), "a path in a folder you may write to");
}

void write_all(int fd, std::string_view text, const std::string& path) {
  if (const int error = write_whole(fd, text); error != 0)
    refuse(path, system_reason(error), "a place with room for the report");
}

/// A pipe or a terminal cannot be synchronised, which is no fault of the text.
void to_disk(int fd, const std::string& path) {
  if (::fsync(fd) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) {
    refuse(path, system_reason(errno), "a place with room for the report");
  }
}

}  // namespace

void remove_leftovers_and_warn(const std::string& path) {
  for (const std::string& name : speedtorch::remove_leftovers(path))
    std::fputs(fmt::format("stbench: removed \"{}\", a leftover of a killed process\n", name).c_str(),
               stderr);
}

ReportFile::ReportFile(std::string path, speedtorch::Temporary temporary) : path_(std::move(path)) {
  if (path_.empty())
    throw ReportError("cannot write a report to \"\": a file name, or - for the output, would be right");
  if (path_ == "-") {
    require_standard_output();
    return;
  }
  target_ = destination_of(path_);
  struct stat state {};
  const bool exists = ::stat(target_.c_str(), &state) == 0;
  if (!exists && errno == ELOOP) refuse(path_, system_reason(ELOOP), "a link that leads to a file");
  if (exists && S_ISDIR(state.st_mode)) refuse(path_, "it is a folder", "the name of a file in it");
  if (exists && ::access(target_.c_str(), W_OK) != 0)
    refuse(path_, system_reason(errno), "a file you may write to");
  if (fs::path(path_).filename().empty()) refuse(path_, "it names a folder", "the name of a file");
  if (exists && !S_ISREG(state.st_mode)) {
    claim_in_place();
  } else {
    claim_temporary(temporary);
    if (exists) speedtorch::copy_access(file_->get(), state);
  }
}

void ReportFile::claim_in_place() {
  in_place_ = speedtorch::Descriptor(::open(target_.c_str(), O_WRONLY | O_CLOEXEC));
  if (!in_place_.valid()) refuse(path_, system_reason(errno), "a path you may write to");
}

void ReportFile::claim_temporary(speedtorch::Temporary temporary) {
  file_.emplace(target_, temporary);
  if (file_->error() != 0) refuse_folder(path_, target_, file_->error());
  remove_leftovers_and_warn(target_);
}

void ReportFile::write(std::string_view text) {
  if (std::exchange(written_, true)) throw std::logic_error("a report file is written once");
  if (path_ == "-") {
    std::fflush(stdout);
    return write_standard_output(text);
  }
  const int to = file_ ? file_->get() : in_place_.get();
  write_all(to, text, path_);
  to_disk(to, path_);
  if (file_) publish();
}

void ReportFile::publish() {
  if (const int error = file_->replace(); error != 0) refuse_folder(path_, target_, error);
  if (const int error = file_->sync_folder(); error != 0)
    refuse(path_, fmt::format("it is written, and may be lost if the power fails: {}", system_reason(error)),
           "a disk without errors");
}

std::unique_ptr<ReportFile> claimed(const std::string& path) {
  return path.empty() ? nullptr : std::make_unique<ReportFile>(path);
}

std::string read_file(const std::string& path, std::size_t largest) {
  const auto fail = [&](std::string_view why) {
    throw ReportError(
        fmt::format("cannot read \"{}\": {}; a report of this program would be right", path, why));
  };
  const speedtorch::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) fail(system_reason(errno));
  std::string text;
  std::array<char, std::size_t{1} << 16> block{};
  while (true) {
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(system_reason(errno));
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

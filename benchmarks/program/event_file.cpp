#include "benchmarks/program/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "reports/destination.h"
#include "reports/error.h"
#include "reports/standard_output.h"

namespace stbench {
namespace {

[[noreturn]] void refuse(const std::string& path, int error) {
  const auto why = error == EISDIR ? "it is a folder" : reports::system_reason(error);
  throw reports::ReportError(
      fmt::format("cannot write \"{}\": {}; a file you may write to would be right", path, why));
}

}  // namespace

EventFile::EventFile(std::string path) : path_(std::move(path)) {
  if (path_ == "-") reports::require_standard_output();
  if (path_ != "-" && ::access(path_.c_str(), F_OK) != 0) made_ = reports::destination_of(path_);
  const int fd = path_ == "-" ? ::dup(STDOUT_FILENO)
                              : ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) refuse(path_, errno);
  file_ = speedtorch::Descriptor(fd);
}

EventFile::~EventFile() {
  if (!made_.empty() && !begun_) ::unlink(made_.c_str());
}

void EventFile::update(const reports::Report& report) { append(lines_.update(report)); }

void EventFile::end(const reports::Report& report) {
  append(lines_.end(report));
  if (error_ != 0) refuse(path_, error_);
}

void EventFile::append(const std::string& lines) {
  if (!lines.empty() && !std::exchange(begun_, true) && path_ != "-" && ::ftruncate(file_.get(), 0) != 0 &&
      errno != EINVAL)  // a pipe cannot be emptied, and need not
    error_ = errno;
  if (error_ == 0) error_ = reports::write_whole(file_.get(), lines);
}

}  // namespace stbench

#include "benchmarks/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "reports/error.h"

namespace stbench {
namespace {

[[noreturn]] void refuse(const std::string& path, int error) {
  throw reports::ReportError(fmt::format("cannot write \"{}\": {}; a file you may write to would be right",
                                         path, std::generic_category().message(error)));
}

}  // namespace

EventFile::EventFile(std::string path) : path_(std::move(path)) {
  made_ = path_ != "-" && ::access(path_.c_str(), F_OK) != 0;
  const int fd = path_ == "-" ? ::dup(STDOUT_FILENO)
                              : ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) refuse(path_, errno);
  file_ = reports::FileDescriptor(fd);
}

EventFile::~EventFile() {
  if (made_ && !begun_) ::unlink(path_.c_str());
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
  std::string_view rest = lines;
  while (!rest.empty() && error_ == 0) {
    const ssize_t count = ::write(file_.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      error_ = errno;
    } else {
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
  }
}

}  // namespace stbench

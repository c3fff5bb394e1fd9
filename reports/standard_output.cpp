#include "reports/standard_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "reports/error.h"

namespace stbench::reports {
namespace {

[[noreturn]] void refuse_output(std::string_view why, std::string_view right) {
  throw ReportError(fmt::format("cannot write \"the standard output\": {}; {} would be right", why, right));
}

}  // namespace

void reserve_standard_descriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) != -1 || errno != EBADF) continue;
    // open() returns the lowest free number, which is this one. Messages may be dropped, because the parent
    // closed stderr. A requested text may not, so writing it has to fail.
    ::open("/dev/null", number == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool standard_output_is_closed() {
  const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
  return flags < 0 || (flags & O_ACCMODE) == O_RDONLY;
}

void require_standard_output() {
  if (standard_output_is_closed())
    refuse_output("it is closed", "an open one (>/dev/null drops the text), or the name of a file");
}

void write_standard_output(std::string_view text) {
  require_standard_output();
  if (const int error = write_whole(STDOUT_FILENO, text); error != 0)
    refuse_output(system_reason(error), "a place with room for the whole text");
}

int write_whole(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

}  // namespace stbench::reports

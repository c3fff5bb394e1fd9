#include "speedtorch/system/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>

#include "speedtorch/error.h"
#include "speedtorch/system/descriptor.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/system/parallel_read.h"
#include "speedtorch/system/unfinished.h"

namespace speedtorch {

std::string read_small_file(const std::string& path, std::int64_t largest) {
  // Without O_NONBLOCK, opening a pipe waits for its other end.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat found {};
  if (!file.valid() || ::fstat(file.get(), &found) != 0) refuse_path(path, "cannot be read");
  if (!S_ISREG(found.st_mode))
    refuse_irregular(path, found.st_mode, "is not a regular file and cannot be read");
  if (found.st_size > largest)
    throw FileError("'" + base_name(path) + "' has " + std::to_string(found.st_size) + " bytes; at most " +
                        std::to_string(largest) + " would be right",
                    0, path);
  std::string text(static_cast<std::size_t>(largest), '\0');  // files of /proc and /sys have no size
  const auto [count, error] = read_bytes(file.get(), 0, reinterpret_cast<std::byte*>(text.data()), largest);
  errno = error;
  if (error != 0) refuse_path(path, "cannot be read");
  text.resize(static_cast<std::size_t>(count));
  return text;
}

}  // namespace speedtorch

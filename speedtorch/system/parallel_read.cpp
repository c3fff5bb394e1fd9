#include "speedtorch/system/parallel_read.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "speedtorch/error.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

/// Long enough for a disk's full speed, short enough for many threads to share a file.
constexpr std::int64_t read_piece_bytes = std::int64_t{8} << 20;

void read_piece(int fd, std::int64_t offset, std::byte* to, std::int64_t bytes, const std::string& name) {
  const auto [count, error] = read_bytes(fd, offset, to, bytes);
  if (error != 0) throw FileError("'" + name + "' cannot be read: " + std::strerror(error));
  if (count < bytes)
    throw FileError("'" + name + "' ends at byte " + std::to_string(offset + count) +
                    ", and was longer when it was opened");
}

}  // namespace

BytesRead read_bytes(int fd, std::int64_t offset, std::byte* to, std::int64_t bytes) {
  BytesRead read;
  while (read.count < bytes) {
    const auto got = ::pread(fd, to + read.count, static_cast<std::size_t>(bytes - read.count),
                             static_cast<off_t>(offset + read.count));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) read.error = errno;
    if (got <= 0) break;
    read.count += got;
  }
  return read;
}

void read_in_parallel(int fd, std::int64_t offset, std::byte* to, std::int64_t bytes,
                      const std::string& name) {
  const auto pieces = (bytes + read_piece_bytes - 1) / read_piece_bytes;
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto piece = begin; piece < end; ++piece) {
      const auto from = piece * read_piece_bytes;
      read_piece(fd, offset + from, to + from, std::min(read_piece_bytes, bytes - from), name);
    }
  });
}

}  // namespace speedtorch

#include "benchmarks/sharded/sent_bytes.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <filesystem>
#include <string>

namespace stbench {

std::optional<std::int64_t> bytes_sent_over_tcp() {
  std::int64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    tcp_info info{};
    socklen_t size = sizeof info;
    const int fd = std::stoi(entry.path().filename().string());
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;  // no TCP connection
    if (size < offsetof(tcp_info, tcpi_bytes_sent) + sizeof info.tcpi_bytes_sent) return std::nullopt;
    bytes += static_cast<std::int64_t>(info.tcpi_bytes_sent);
  }
  return bytes;
}

}  // namespace stbench

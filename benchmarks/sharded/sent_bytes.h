/// Counts the bytes that this process has sent over the network, as the kernel does.
#pragma once

#include <cstdint>
#include <optional>

namespace stbench {

/// Bytes that this process has sent over the TCP connections that it has now, without the headers of the
/// network. Nothing if the kernel does not count them (before Linux 4.19).
std::optional<std::int64_t> bytes_sent_over_tcp();

}  // namespace stbench

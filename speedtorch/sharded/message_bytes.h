/// Memory for messages between ranks. For the project's own files.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>

namespace speedtorch {

/// New memory that begins at a page. Linux copies a message out of a socket by `rep movsb`. If the copy's
/// place in its page is 16 bytes behind the original's, a Zen 3 copies 1.8 GB/s instead of 25 to 36. Large
/// blocks of malloc() begin 64 bytes into a page, and a message of Gloo often begins 48 bytes into one
/// (results/amd-epyc-2-cores-2026-11-30/sharded/changes.txt).
inline at::Tensor message_bytes(std::int64_t bytes) {
  constexpr std::int64_t page = 4096;
  const auto memory = at::empty({bytes + page}, at::kByte);
  const auto into_page =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory.data_ptr()) % page);
  return memory.narrow(0, page - into_page, bytes);
}

}  // namespace speedtorch

/// Lays out arrays one after the other in a block of memory. C++17, and no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "speedtorch/kernels/error.h"

namespace speedtorch::kernels {

/// Device memory that a caller lends.
struct Workspace {
  std::byte* data = nullptr;  ///< aligned to 256 bytes, as allocators return it
  std::int64_t bytes = 0;
};

/// Hands out parts of a block. Without a block it returns null and only adds up, so that one piece of code
/// defines both the size and the layout.
class WorkspaceLayout {
 public:
  /// @param data aligned to kAlignment, or null
  explicit WorkspaceLayout(std::byte* data) : data_(data) {}

  /// The next `count` values.
  template <class T>
  T* take(std::int64_t count) {
    std::byte* const at = data_ == nullptr ? nullptr : data_ + bytes_;
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(at);
  }

  /// The bytes of all parts handed out.
  std::int64_t bytes() const { return bytes_; }

  static constexpr std::int64_t kAlignment = 256;  // as CUB requires of its scratch memory

 private:
  std::byte* data_;
  std::int64_t bytes_ = 0;
};

/// @throws ShapeError if CUB cannot sort so many indices
inline void check_sortable(std::int64_t count) {
  if (count < 0 || count > std::numeric_limits<std::int32_t>::max())
    throw ShapeError(std::to_string(count) + " indices cannot be sorted: 2^31 - 1 is the most");
}

/// @param needed_bytes returns the size; called after the alignment is checked, because it asks the device
/// @param call as in "this gather"
/// @throws ShapeError if the workspace is misaligned or too small
template <class Needed>
void check_workspace(const Workspace& workspace, Needed needed_bytes, const std::string& call) {
  const auto past = reinterpret_cast<std::uintptr_t>(workspace.data) % WorkspaceLayout::kAlignment;
  if (past != 0) {
    throw ShapeError("the workspace starts " + std::to_string(past) + " bytes past a multiple of " +
                     std::to_string(WorkspaceLayout::kAlignment));
  }
  const std::int64_t needed = needed_bytes();
  if (workspace.data == nullptr || workspace.bytes < needed) {
    throw ShapeError("the workspace has " + std::to_string(workspace.bytes) + " bytes; " + call + " needs " +
                     std::to_string(needed));
  }
}

}  // namespace speedtorch::kernels

/// Arrays one after the other in a block of memory. C++17, and no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace speedtorch::kernels {

/// Hands out parts of a block. Without a block it hands out null and only adds up, so that one piece of code
/// says both how much is needed and what lies where.
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

  /// Of all that was taken.
  std::int64_t bytes() const { return bytes_; }

  static constexpr std::int64_t kAlignment = 256;  // what CUB asks of its scratch memory

 private:
  std::byte* data_;
  std::int64_t bytes_ = 0;
};

}  // namespace speedtorch::kernels

/// The kinds of memory for a table.
#pragma once

#include <cstddef>
#include <string_view>

namespace speedtorch {

/// - `libtorch`: a tensor as LibTorch allocates it
/// - `pageable`: host memory advised to use 4 KiB pages
/// - `hugepage`: host memory advised to use huge pages
/// - `mapped`: a file mapped into memory
/// - `pinned`: host memory that CUDA kernels read and write in place
/// - `device`: the GPU's own memory
enum class Placement { libtorch, pageable, hugepage, mapped, pinned, device };

constexpr std::string_view to_string(Placement placement) {
  constexpr std::string_view names[] = {"libtorch", "pageable", "hugepage", "mapped", "pinned", "device"};
  return names[static_cast<std::size_t>(placement)];
}

/// How a new file takes space on the disk. `reserved` takes all blocks at once, so that no write meets a full
/// disk. `sparse` takes each block at its first write: if others fill the disk meanwhile, a write through a
/// mapping ends the process (SIGBUS).
enum class Space { reserved, sparse };

/// True if the memory belongs to a GPU or to a CUDA context.
constexpr bool needs_cuda(Placement placement) {
  return placement == Placement::pinned || placement == Placement::device;
}

}  // namespace speedtorch

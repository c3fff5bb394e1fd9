/// Where a table lives.
#pragma once

#include <string_view>

namespace speedtorch {

/// `libtorch`: as LibTorch allocates a tensor; `pageable`: 4 KiB pages, asked for; `hugepage`: huge pages,
/// asked for; `mapped`: a file mapped into memory; `pinned`: host memory that CUDA kernels read and write in
/// place; `device`: the GPU's own memory.
enum class Placement { libtorch, pageable, hugepage, mapped, pinned, device };

constexpr std::string_view to_string(Placement placement) {
  switch (placement) {
    case Placement::libtorch:
      return "libtorch";
    case Placement::pageable:
      return "pageable";
    case Placement::hugepage:
      return "hugepage";
    case Placement::mapped:
      return "mapped";
    case Placement::pinned:
      return "pinned";
    case Placement::device:
      return "device";
  }
  return "unknown";
}

/// How a new file takes the disk. `reserved`: all blocks at once, so that no write meets a full disk.
/// `sparse`: each block when it is first written; on a disk that others fill meanwhile, a write through a
/// mapping ends the process (SIGBUS).
enum class Space { reserved, sparse };

/// True where the memory is the GPU's or belongs to a CUDA context.
constexpr bool needs_cuda(Placement placement) {
  return placement == Placement::pinned || placement == Placement::device;
}

}  // namespace speedtorch

#include "speedtorch/memory/memory.h"

#include "speedtorch/error.h"
#include "speedtorch/memory/cuda_memory.h"
#include "speedtorch/memory/host_memory.h"
#include "speedtorch/system/mapping.h"

namespace speedtorch {

std::shared_ptr<Memory> allocate(Placement placement, std::int64_t bytes, at::Device device,
                                 const std::string& folder) {
  require_bytes(bytes);
  switch (placement) {
    case Placement::libtorch:
      return allocate_libtorch(bytes);
    case Placement::pageable:
    case Placement::hugepage:
      return allocate_pages(placement, bytes);
    case Placement::mapped:
      return allocate_mapped(bytes, folder);
    case Placement::pinned:
      return allocate_pinned(bytes, device);
    case Placement::device:
      return allocate_device(bytes, device);
  }
  throw PlacementError("unknown placement");
}

}  // namespace speedtorch

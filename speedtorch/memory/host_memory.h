/// The placements of the host. For the library's own files.
#pragma once

#include <memory>
#include <string>

#include "speedtorch/memory/block.h"

namespace speedtorch {

/// Each returns memory of `bytes` > 0 bytes. @throws LimitError, MemoryError as allocate()
std::shared_ptr<Memory> allocate_libtorch(std::int64_t bytes);

/// @param kind `pageable` or `hugepage`
std::shared_ptr<Memory> allocate_pages(Placement kind, std::int64_t bytes);

/// In an unnamed file in `folder`, which is /var/tmp if empty.
std::shared_ptr<Memory> allocate_mapped(std::int64_t bytes, const std::string& folder);

}  // namespace speedtorch

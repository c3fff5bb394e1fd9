/// Where new tables go, and a scope in which they go elsewhere.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "speedtorch/placement.h"

namespace speedtorch {

/// Where a new table goes.
struct TableOptions {
  Placement placement = Placement::hugepage;
  c10::Device device = c10::kCPU;  ///< the GPU of a `pinned` or `device` table; `cpu`: the current GPU
  std::string file = {};  ///< the `.npy` file that becomes a `mapped` table; empty: one without a name
  Space space = Space::reserved;  ///< of that file's disk; one without a name is always reserved
};

/// Where the tables go for which the calling thread names no options: the innermost
/// DefaultTableOptionsGuard's, else huge pages.
const TableOptions& default_table_options();

/// The calling thread's tables go there until the end of the scope, however that comes; other threads and
/// LibTorch's own allocations are not concerned. Scopes nest.
class DefaultTableOptionsGuard {
 public:
  explicit DefaultTableOptionsGuard(TableOptions options);
  ~DefaultTableOptionsGuard();
  DefaultTableOptionsGuard(const DefaultTableOptionsGuard&) = delete;
  DefaultTableOptionsGuard& operator=(const DefaultTableOptionsGuard&) = delete;

 private:
  TableOptions options_;
  const TableOptions* outer_;
};

}  // namespace speedtorch

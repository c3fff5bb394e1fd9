/// Options for new tables, and a guard that sets their defaults.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "speedtorch/placement.h"

namespace speedtorch {

/// The memory of a new table.
struct TableOptions {
  Placement placement = Placement::hugepage;
  c10::Device device = c10::kCPU;  ///< the GPU of a `pinned` or `device` table; `cpu` means the current GPU
  std::string file = {};  ///< the `.npy` file that a `mapped` table creates; empty: a file without a name
  Space space =
      Space::reserved;  ///< how that file takes disk space; a file without a name is always reserved
  bool shared = false;  ///< in memory that other processes can map too; for `pageable`, `hugepage` and
                        ///< `pinned` tables. SharedTable::hold() takes the first two, and any `mapped` table.
};

/// The options for tables for which the calling thread names none: those of its innermost
/// DefaultTableOptionsGuard, else huge pages.
const TableOptions& default_table_options();

/// Sets the default options of the calling thread until the end of the scope. Other threads and LibTorch's
/// own allocations are not affected. Guards nest.
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

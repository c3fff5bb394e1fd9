/// Where new tables go, and a scope in which they go elsewhere.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "speedtorch/placement.h"

namespace speedtorch {

/// Where a new table goes.
struct Home {
  Placement placement = Placement::hugepage;
  c10::Device device = c10::kCPU;  ///< the GPU of a `pinned` or `device` table; `cpu`: the current GPU
  std::string file = {};  ///< the `.npy` file that becomes a `mapped` table; empty: one without a name
  Space space = Space::reserved;  ///< of that file's disk; one without a name is always reserved
};

/// Where the tables go for which the calling thread names no home: the innermost HomeScope's, else huge
/// pages.
const Home& current_home();

/// The calling thread's tables go there until the end of the scope, however that comes; other threads and
/// LibTorch's own allocations are not concerned. Scopes nest.
class HomeScope {
 public:
  explicit HomeScope(Home home);
  ~HomeScope();
  HomeScope(const HomeScope&) = delete;
  HomeScope& operator=(const HomeScope&) = delete;

 private:
  Home home_;
  const Home* outer_;
};

}  // namespace speedtorch

/// The placements that every machine has.
#pragma once

#include <array>

#include "speedtorch/placement.h"

namespace speedtorch {

inline constexpr std::array host_placements{Placement::libtorch, Placement::pageable, Placement::hugepage,
                                            Placement::mapped};

}  // namespace speedtorch

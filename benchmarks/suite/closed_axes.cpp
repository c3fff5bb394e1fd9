#include "benchmarks/suite/closed_axes.h"

#include "speedtorch/kernels/isa.h"

namespace stbench::closed_axes {

using Names = std::vector<std::string>;

Names directions() { return {"to", "from", "sum", "round_trip", "both", "consume"}; }

Names placements() { return {"libtorch", "pageable", "hugepage", "mapped", "pinned", "device"}; }

Names dtypes() { return {"float16", "bfloat16", "float32", "float64", "int8", "int32", "int64"}; }

Names index_dtypes() { return {"int64", "int32"}; }

Names isas() {
  Names names{"best"};
  for (const auto isa : speedtorch::kernels::supported_isas()) names.emplace_back(isa);
  return names;
}

Names caches() { return {"warm", "cold"}; }

}  // namespace stbench::closed_axes

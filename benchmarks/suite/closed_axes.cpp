#include "benchmarks/suite/closed_axes.h"

#include "speedtorch/kernels/isa.h"

namespace stbench::closed_axes {

using Names = std::vector<std::string>;

const Names& directions() {
  static const Names names{"to", "from", "sum", "round_trip", "both"};
  return names;
}

const Names& placements() {
  static const Names names{"libtorch", "pageable", "hugepage", "mapped", "pinned", "device"};
  return names;
}

const Names& dtypes() {
  static const Names names{"float16", "bfloat16", "float32", "float64", "int8", "int32", "int64"};
  return names;
}

const Names& index_dtypes() {
  static const Names names{"int64", "int32"};
  return names;
}

const Names& isas() {
  static const Names names = [] {
    Names all{"best"};
    for (const auto isa : speedtorch::kernels::supported_isas()) all.emplace_back(isa);
    return all;
  }();
  return names;
}

const Names& caches() {
  static const Names names{"warm", "cold"};
  return names;
}

}  // namespace stbench::closed_axes

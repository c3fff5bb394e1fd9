#include "benchmarks/transfer_axes.h"

#include <limits>

#include "reports/columns.h"

namespace stbench {
namespace {

using Names = std::vector<std::string>;

const std::vector<Preset>& presets() {
  using namespace transfer_axes;
  static const std::vector<Preset> all{
      {.name = "quick",
       .directions = {"to", "from", "sum"},
       .placements = {"libtorch", "hugepage", "pinned", "device"},
       .dtypes = {"float32"},
       .index_dtypes = {"int64"},
       .distributions = {"unique"},
       .all_cores_only = true,
       .seconds = 30,
       .group_seconds = 15},
      {.name = "standard",
       .directions = directions(),
       .placements = placements(),
       .dtypes = {"float32"},
       .index_dtypes = {"int64"},
       .distributions = {"unique"},
       .seconds = 260,
       .group_seconds = 90},
      {.name = "full",
       .directions = directions(),
       .placements = placements(),
       .dtypes = dtypes(),
       .index_dtypes = index_dtypes(),
       .distributions = {"unique", "uniform", "sequential", "sorted", "zipf:1.05"},
       .seconds = std::numeric_limits<double>::infinity(),
       .group_seconds = 15},
  };
  return all;
}

}  // namespace

namespace transfer_axes {

const Names& directions() {
  static const Names names{"to", "from", "sum", "round_trip"};
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

const harness::AxisDefaults& further() { return reports::known_axes(); }

}  // namespace transfer_axes

const Preset& preset_of(const Options& options) {
  return *std::find_if(presets().begin(), presets().end(),
                       [&](const Preset& preset) { return preset.name == options.preset; });
}

Names preset_names() {
  Names names;
  for (const auto& preset : presets()) names.push_back(preset.name);
  return names;
}

Names directions_of(const Options& options) {
  return given_or(options.directions, preset_of(options).directions);
}

}  // namespace stbench

/// The axes of the transfer suite, and what each preset takes.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/closed_axes.h"
#include "benchmarks/suite/options.h"
#include "benchmarks/suite/preset.h"
#include "harness/case_id.h"
#include "reports/record.h"

namespace stbench {

/// The axes that this suite shares with others, and those of its own.
namespace transfer_axes {
using namespace closed_axes;
/// The further axes and their defaults.
const harness::AxisDefaults& further();
}  // namespace transfer_axes

/// A section of a preset: values of some axes, which the user's own values replace.
struct Block {
  enum class Cores {
    all,
    one,
    one_and_all,
    doubled
  };  ///< doubled: 1, 2, 4 ... and all, if those are more than 2
  enum class Devices { any, host, gpu };

  std::vector<std::string> directions, placements, dtypes, index_dtypes, distributions;
  std::vector<std::string> methods;               ///< empty: all
  std::vector<std::string> caches;                ///< empty: warm
  bool peers = false;                             ///< the section has peers, too
  std::vector<std::int64_t> row_bytes;            ///< instead of dtypes
  std::vector<std::int64_t> rows, dims, batches;  ///< empty: the standard one
  std::int64_t table_bytes = 0;                   ///< decides the rows, by what fits; 0: the standard rows
  Cores cores = Cores::one_and_all;
  Devices devices = Devices::any;
  double seconds = 0;        ///< for sampling all groups
  double group_seconds = 0;  ///< at most, for one group
};

/// The values of a preset for axes that the user does not give.
struct Preset {
  std::string name;
  std::string help;           ///< a sentence or two
  std::vector<Block> blocks;  ///< planned in order; a case of two blocks is measured with the first
  /// Plans one placement after the other, so that one table at a time serves all groups.
  bool by_placement = false;
};

const Preset& preset_of(const Options& options);
std::vector<PresetInfo> preset_list();

/// The options that run the case of `options.case_id` and those that it is compared with: LibTorch's methods
/// and the ceilings of its cell. Options without a case are returned as they are.
/// @throws UsageError naming the part of the case ID that is not known.
Options options_for_case(const Options& options);

/// The directions asked for, `sum` included.
std::vector<std::string> directions_of(const Options& options);

/// The placements asked for, by all blocks together.
std::vector<std::string> placements_of(const Options& options);

}  // namespace stbench

/// The axes of the transfer suite, and what each preset takes.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/closed_axes.h"
#include "benchmarks/suite/options.h"
#include "benchmarks/suite/preset.h"
#include "harness/sentence.h"
#include "reports/record.h"

namespace stbench {

/// The axes that this suite shares with others, and those of its own.
namespace transfer_axes {
using namespace closed_axes;
/// The further axes and their defaults.
const harness::AxisDefaults& further();
}  // namespace transfer_axes

/// A part of a preset: the cases of a few axes, each of which the user's own values replace.
struct Block {
  enum class Cores {
    all,
    one,
    one_and_all,
    doubled
  };  ///< doubled: 1, 2, 4 ... and all, where those are more than 2
  enum class Devices { any, host, gpu };

  std::vector<std::string> directions, placements, dtypes, index_dtypes, distributions;
  std::vector<std::string> methods;               ///< all where empty
  std::vector<std::string> caches;                ///< warm where empty
  bool peers = false;                             ///< peers belong to it, too
  std::vector<std::int64_t> row_bytes;            ///< instead of dtypes
  std::vector<std::int64_t> rows, dims, batches;  ///< the standard one where empty
  std::int64_t table_bytes = 0;  ///< then the rows are as many as fit; 0: the standard number of rows
  Cores cores = Cores::one_and_all;
  Devices devices = Devices::any;
  double seconds = 0;        ///< of sampling, for all groups together
  double group_seconds = 0;  ///< for one group at the most
};

/// What a preset takes where the user names nothing.
struct Preset {
  std::string name;
  std::string help;  ///< a sentence or two
  std::vector<Block>
      blocks;  ///< planned one after the other; a case of two blocks is measured with the first
  /// All blocks of one placement come before those of the next, so that one table at a time serves every
  /// group.
  bool by_placement = false;
};

const Preset& preset_of(const Options& options);
std::vector<PresetInfo> preset_list();

/// True where the case's caches are made cold before each sample.
bool is_cold(const reports::Identity& id);

/// The directions asked for, `sum` among them where it is wanted.
std::vector<std::string> directions_of(const Options& options);

/// Whether the case has the default of one of the further axes.
bool is_usual_axis(const reports::Identity& id, std::string_view axis);

/// Where an operation of the case's direction has a meaning: both ways at once are over the link to a GPU.
bool direction_applies(const reports::Identity& id);

/// Why its direction cannot be measured with such batches, with the cure; empty where it can.
std::string direction_refuses(const reports::Identity& id);

/// The placements asked for, those of all blocks together.
std::vector<std::string> placements_of(const Options& options);

}  // namespace stbench

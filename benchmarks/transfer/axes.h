/// The axes of the transfer suite: the values of the closed ones, and what each preset takes.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/options.h"
#include "harness/case_id.h"
#include "reports/record.h"

namespace stbench {

/// The closed axes: every value they can have, in the order of reports.
namespace transfer_axes {
const std::vector<std::string>& directions();
const std::vector<std::string>& placements();
const std::vector<std::string>& dtypes();
const std::vector<std::string>& index_dtypes();
/// `best`, and the instruction sets that the host kernels were compiled for and this machine has.
const std::vector<std::string>& isas();
const std::vector<std::string>& caches();
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
  std::vector<Block>
      blocks;  ///< planned one after the other; a case of two blocks is measured with the first
  /// All blocks of one placement come before those of the next, so that one table at a time serves every
  /// group.
  bool by_placement = false;
};

const Preset& preset_of(const Options& options);
std::vector<std::string> preset_names();

/// The directions asked for, `sum` among them where it is wanted.
std::vector<std::string> directions_of(const Options& options);

/// The placements asked for, those of all blocks together.
std::vector<std::string> placements_of(const Options& options);

}  // namespace stbench

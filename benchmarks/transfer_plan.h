/// The plan of the transfer suite: which cases on this machine, in which groups, and what is waived.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/suite.h"
#include "benchmarks/transfer_indices.h"

namespace stbench {

/// The closed axes: every value they can have, in the order of reports.
namespace transfer_axes {
const std::vector<std::string>& directions();
const std::vector<std::string>& placements();
const std::vector<std::string>& dtypes();
const std::vector<std::string>& index_dtypes();
/// The further axes and their defaults.
const harness::AxisDefaults& further();
}  // namespace transfer_axes

/// The presets' names, the standard one among them.
const std::vector<std::string>& preset_names();

struct TransferPlan {
  /// Cases measured in the same rounds: one or more placements of one direction, shape, device and number of
  /// cores.
  struct Cases {
    std::vector<reports::Identity> cases;
    double seconds = 0;
  };
  std::vector<Cases> groups;
  std::vector<reports::Record> waived;
};

/// What the options come to: the preset's axes, with the given ones in their place.
/// Distributions are read into `indices`.
/// @throws UsageError for what cannot be done as asked, before anything is allocated.
TransferPlan plan_transfer(const Options& options, const harness::Machine& machine, TransferIndices& indices);

/// The directions asked for, `sum` among them where it is wanted.
std::vector<std::string> directions_of(const Options& options);

/// The options that run one case and what it is judged against: LibTorch's methods and the ceilings of its
/// cell.
Options options_for_case(const Options& options);

}  // namespace stbench

/// The axes of the transfer suite: the values of the closed ones, and what each preset takes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "benchmarks/options.h"
#include "harness/sentence.h"

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

/// What a preset takes where the user names nothing.
struct Preset {
  std::string name;
  std::vector<std::string> directions, placements, dtypes, index_dtypes, distributions;
  bool all_cores_only = false;  ///< else 1 core and all of them
  double seconds = 0;           ///< for all groups together
  double group_seconds = 0;     ///< for one group at the most
};

const Preset& preset_of(const Options& options);
std::vector<std::string> preset_names();

/// The directions asked for, `sum` among them where it is wanted.
std::vector<std::string> directions_of(const Options& options);

/// What the user gave, else the standard.
template <class T>
std::vector<T> given_or(const std::vector<T>& given, std::vector<T> standard) {
  return given.empty() ? standard : given;
}

inline bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace stbench

#include "benchmarks/transfer/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "benchmarks/transfer/axes.h"
#include "benchmarks/transfer/method.h"
#include "harness/case_id.h"
#include "harness/errors.h"

namespace stbench {
namespace {

using Names = std::vector<std::string>;

/// @throws UsageError naming the part of the case ID that is not known.
void require_known_parts(const reports::Identity& id) {
  Names methods_known;
  for (const auto& method : methods()) methods_known.push_back(method.name);
  Names dtypes = transfer_axes::dtypes();
  dtypes.emplace_back("bytes");
  require_known(id.suite, "--case: suite", {"transfer"});
  require_known(id.direction, "--case: direction", transfer_axes::directions());
  require_known(id.placement, "--case: placement", transfer_axes::placements());
  require_known(id.method, "--case: method", methods_known);
  require_known(id.dtype, "--case: dtype", dtypes);
  require_known(id.index_dtype, "--case: index dtype", transfer_axes::index_dtypes());
}

/// The case's value of a further axis. @throws UsageError for an unknown one
std::string taken(const reports::Identity& id, const std::string& axis, const Names& known) {
  const auto* text = std::get_if<std::string>(reports::find(id.axes, axis));
  const auto name = text ? *text : std::string();
  require_known(name, "--case: " + axis, known);
  return name;
}

/// The further axes of the case, as options; of one of them there is one value so far.
void take_further(Options& one, const reports::Identity& id, const std::string& text) {
  if (*reports::find(id.axes, "index_home") != *reports::find(transfer_axes::further(), "index_home"))
    throw UsageError(fmt::format("--case '{}': index_home has no other value yet", text));
  one.isas = {taken(id, "isa", transfer_axes::isas())};
  one.caches = {taken(id, "cache", transfer_axes::caches())};
  one.callers = {std::get<std::int64_t>(*reports::find(id.axes, "callers"))};
}

}  // namespace

Options options_for_case(const Options& options) {
  if (options.case_id.empty()) return options;
  const auto id = harness::parse_case(options.case_id, transfer_axes::further());
  require_known_parts(id);
  Options one = options;
  take_further(one, id, options.case_id);
  one.directions = {id.direction}, one.placements = {id.placement}, one.devices = {id.device};
  one.distributions = {id.distribution}, one.index_dtypes = {id.index_dtype};
  one.rows = {id.rows}, one.batches = {id.batch}, one.cores = {id.cores};
  one.dtypes.clear(), one.dims.clear(), one.row_bytes.clear(), one.methods.clear();
  if (id.dtype == "bytes") {
    one.row_bytes = {id.dim};
  } else {
    one.dtypes = {id.dtype}, one.dims = {id.dim};
  }
  for (const auto& method : methods()) {
    const bool reference = method.role == harness::Role::libtorch || method.role == harness::Role::ceiling;
    if (reference || method.name == id.method) one.methods.push_back(method.name);
  }
  return one;
}

}  // namespace stbench

#include "benchmarks/transfer/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "benchmarks/transfer/axes.h"
#include "benchmarks/transfer/method.h"
#include "harness/case_id.h"
#include "harness/errors.h"
#include "harness/suggest.h"

namespace stbench {
namespace {

using Names = std::vector<std::string>;

/// @throws UsageError naming the part of the case's sentence that is not known.
void require_known(const reports::Identity& id) {
  Names methods_known;
  for (const auto& method : methods()) methods_known.push_back(method.name);
  Names dtypes = transfer_axes::dtypes();
  dtypes.emplace_back("bytes");
  const auto require = [](const std::string& text, const char* part, const Names& known) {
    if (!contains(known, text))
      throw UsageError(harness::unknown_name(text, std::string("--case: ") + part, known));
  };
  require(id.suite, "suite", {"transfer"});
  require(id.direction, "direction", transfer_axes::directions());
  require(id.placement, "placement", transfer_axes::placements());
  require(id.method, "method", methods_known);
  require(id.dtype, "dtype", dtypes);
  require(id.index_dtype, "index dtype", transfer_axes::index_dtypes());
}

/// The case's value of a further axis. @throws UsageError for an unknown one
std::string taken(const reports::Identity& id, const std::string& axis, const Names& known) {
  const auto* text = std::get_if<std::string>(reports::find(id.axes, axis));
  const auto name = text ? *text : std::string();
  if (!contains(known, name)) throw UsageError(harness::unknown_name(name, "--case: " + axis, known));
  return name;
}

/// The further axes of the case, as options; of one of them there is one value so far.
void take_further(Options& one, const reports::Identity& id, const std::string& sentence) {
  if (!is_usual_axis(id, "index_home"))
    throw UsageError(fmt::format("--case '{}': index_home has no other value yet", sentence));
  one.isas = {taken(id, "isa", transfer_axes::isas())};
  one.caches = {taken(id, "cache", transfer_axes::caches())};
  one.callers = {callers_of(id)};
}

}  // namespace

Options options_for_case(const Options& options) {
  if (options.case_id.empty()) return options;
  const auto id = harness::parse_case(options.case_id, transfer_axes::further());
  require_known(id);
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

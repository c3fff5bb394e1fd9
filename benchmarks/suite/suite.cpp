#include "benchmarks/suite/suite.h"

#include <algorithm>
#include <map>
#include <optional>

#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/closed_axes.h"
#include "benchmarks/suite/devices.h"
#include "benchmarks/suite/registry.h"
#include "harness/errors.h"
#include "reports/columns.h"

namespace stbench {
namespace {

using Names = std::vector<std::string>;

/// The name that the case has for an axis; nothing for an axis of numbers.
std::optional<std::string> name_on(const reports::Identity& id, std::string axis) {
  static const std::map<std::string, std::string reports::Identity::*> common{
      {"direction", &reports::Identity::direction},
      {"placement", &reports::Identity::placement},
      {"dtype", &reports::Identity::dtype},
      {"index-dtype", &reports::Identity::index_dtype}};
  if (const auto found = common.find(axis); found != common.end()) return id.*found->second;
  std::ranges::replace(axis, '-', '_');
  const auto* value = reports::find(id.axes, axis);
  const auto* name = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return name == nullptr ? std::nullopt : std::optional(*name);
}

/// @throws UsageError if an axis of the case, which the suite does not describe, is not at its default
void require_standard(const reports::Identity& id, const Suite& suite,
                      const std::vector<AxisInfo>& described) {
  for (const auto& [axis, standard] : suite.axes) {
    auto option = axis;
    std::ranges::replace(option, '_', '-');
    if (std::ranges::find(described, option, &AxisInfo::name) == described.end() &&
        *reports::find(id.axes, axis) != standard)
      throw UsageError(fmt::format("--case: {} has no other value yet", axis));
  }
}

}  // namespace

std::vector<reports::Record> TimedGroup::measure(Bench& bench) {
  std::vector<harness::BenchmarkCase> runnable;
  bench.progress("preparation", 0);
  bench.limited("preparation", [&] { runnable = prepare(); });
  auto records = bench.sample(runnable);
  bench.progress("last checks", 1);
  if (concludes())
    for (auto& record : records) bench.limited(record.id, "conclusion", [&] { conclude(record); });
  bench.limited("last check", [&] { close(records); });
  return records;
}

const std::vector<Suite>& suites() { return registered<Suite>(); }

const Suite& suite_named(const std::string& name) { return by_name(suites(), name); }

reports::SuiteTables tables_of(const std::string& suite) {
  const auto found = std::ranges::find(suites(), suite, &Suite::name);
  return found == suites().end() ? reports::SuiteTables{reports::plain_table} : found->tables;
}

bool takes(const Suite& suite, std::string_view option) {
  for (const char* const of_timing : {"--samples", "--warmup", "--verify"}) {
    if (option == of_timing) return suite.times_cases;
  }
  return std::ranges::any_of(suite.describe(),
                             [&](const AxisInfo& axis) { return "--" + axis.name == option; });
}

std::vector<AxisInfo> with_methods(std::vector<AxisInfo> axes, std::ptrdiff_t at,
                                   const std::vector<MethodInfo>& methods, const std::string& standard) {
  Names usual, peers;
  for (const auto& method : methods) add_once(method.peer ? peers : usual, method.name);
  if (!peers.empty()) axes.insert(axes.begin() + at, {"peers", peers, "none"});
  axes.insert(axes.begin() + at, {"method", usual, standard});
  return axes;
}

std::vector<std::string> direction_names() {
  auto names = closed_axes::directions();  // these first
  for (const auto& suite : suites()) {
    for (const auto& name : suite.directions) add_once(names, name);
  }
  return names;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& suite : suites()) {
    for (const auto& preset : suite.presets) add_once(names, preset.name);
  }
  return names;
}

std::vector<std::string> method_names(bool only_peers) {
  std::vector<std::string> names;
  for (const auto& suite : suites()) {
    for (const auto& method : suite.methods()) {
      if (method.peer || !only_peers) add_once(names, method.name);
    }
  }
  return names;
}

void add_role(reports::Record& record) {
  for (const auto& method : suite_named(record.id.suite).methods()) {
    if (method.name == record.id.method) return reports::set_role(record, method.role);
  }
}

std::string case_id_of(const reports::Identity& id) {
  const bool known = std::ranges::find(suites(), id.suite, &Suite::name) != suites().end();
  return harness::format_case(id, known ? suite_named(id.suite).axes : harness::AxisDefaults{});
}

reports::Identity case_of(const std::string& case_id, const std::string& name) {
  const auto& suite = suite_named(name);
  const auto described = suite.describe();
  auto id = harness::parse_case(case_id, suite.axes, suite.kind);
  require_known(id.suite, "--case: suite", {name});
  require_known(id.method, "--case: method", names_of(suite.methods()));
  if (!suite.directions.empty()) require_known(id.direction, "--case: direction", suite.directions);
  require_standard(id, suite, described);
  const bool in_bytes = id.dtype == "bytes" && takes(suite, "--row-bytes");
  for (const auto& axis : described) {
    const auto value = name_on(id, axis.name);
    if (value && !axis.closed.empty() && !(in_bytes && axis.name == "dtype"))
      require_known(*value, "--case: " + axis.name, axis.closed);
  }
  id.device = resolve_device(id.device);
  return id;
}

RegisterSuite::RegisterSuite(Suite suite) {
  for (const auto& [axis, standard] : suite.axes) reports::know_axis(axis, standard);
  add_by_name(std::move(suite));
}

}  // namespace stbench

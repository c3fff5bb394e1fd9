#include "benchmarks/suite/suite.h"

#include <algorithm>
#include <stdexcept>

#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/closed_axes.h"
#include "reports/columns.h"

namespace stbench {
namespace {

std::vector<Suite>& registered() {
  static std::vector<Suite> all;
  return all;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (!contains(names, name)) names.push_back(name);
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

const std::vector<Suite>& suites() { return registered(); }

const Suite& suite_named(const std::string& name) {
  for (const auto& suite : registered()) {
    if (suite.name == name) return suite;
  }
  throw std::out_of_range("no suite is called '" + name + "'");
}

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
  const auto known = std::any_of(registered().begin(), registered().end(),
                                 [&](const Suite& suite) { return suite.name == id.suite; });
  return harness::format_case(id, known ? suite_named(id.suite).axes : harness::AxisDefaults{});
}

RegisterSuite::RegisterSuite(Suite suite) {
  for (const auto& [axis, standard] : suite.axes) reports::know_axis(axis, standard);
  auto& all = registered();
  const auto place =
      std::find_if(all.begin(), all.end(), [&](const Suite& other) { return other.name > suite.name; });
  all.insert(place, std::move(suite));
}

}  // namespace stbench

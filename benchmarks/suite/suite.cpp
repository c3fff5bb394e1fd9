#include "benchmarks/suite/suite.h"

#include <algorithm>
#include <stdexcept>

namespace stbench {
namespace {

std::vector<Suite>& registered() {
  static std::vector<Suite> all;
  return all;
}

}  // namespace

std::vector<reports::Record> TimedGroup::measure(Bench& bench) {
  std::vector<harness::Contestant> contestants;
  bench.progress("preparation", 0);
  bench.limited("preparation", [&] { contestants = prepare(); });
  auto records = bench.sample(contestants);
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

void add_role(reports::Record& record) {
  for (const auto& method : suite_named(record.id.suite).methods()) {
    if (method.name == record.id.method) return reports::set_role(record, method.role);
  }
}

std::string sentence_of(const reports::Identity& id) {
  const auto known = std::any_of(registered().begin(), registered().end(),
                                 [&](const Suite& suite) { return suite.name == id.suite; });
  return harness::to_sentence(id, known ? suite_named(id.suite).axes : harness::AxisDefaults{});
}

RegisterSuite::RegisterSuite(Suite suite) {
  auto& all = registered();
  const auto place =
      std::find_if(all.begin(), all.end(), [&](const Suite& other) { return other.name > suite.name; });
  all.insert(place, std::move(suite));
}

}  // namespace stbench

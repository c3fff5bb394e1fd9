#include "tests/reports/suites.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "reports/columns.h"
#include "reports/files/file.h"
#include "reports/tables/memory_table.h"
#include "reports/tables/plain_table.h"
#include "reports/tables/step_tables.h"
#include "reports/tables/sweep_tables.h"
#include "reports/tables/training_table.h"
#include "tests/paths.h"

namespace stbench::reports {

SuiteTables tables_of(const std::string& suite) {
  if (suite == "transfer") return {movement_tables};
  if (suite == "memory") return {memory_tables, true};
  if (suite == "infinitybatch") return {training_tables, true};
  if (suite == "optimizer" || suite == "embedding" || suite == "contiguous") return {step_tables};
  return {plain_table};
}

namespace {

/// Only axes have a default in the schema.
const bool known = [] {
  const auto schema = nlohmann::json::parse(read_file(test::source_folder() + "/docs/report.schema.json"));
  for (const auto& [name, type] : schema["properties"]["cases"]["items"]["properties"].items()) {
    const auto found = type.find("default");
    if (found == type.end()) continue;
    if (found->is_string()) {
      know_axis(name, found->get<std::string>());
    } else if (found->is_number_integer()) {
      know_axis(name, found->get<std::int64_t>());
    } else {
      know_axis(name, found->get<double>());
    }
  }
  return true;
}();

}  // namespace

}  // namespace stbench::reports

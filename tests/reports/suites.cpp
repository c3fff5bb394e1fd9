#include "tests/reports/suites.h"

#include "reports/columns.h"
#include "reports/tables/memory_table.h"
#include "reports/tables/plain_table.h"
#include "reports/tables/step_tables.h"
#include "reports/tables/sweep_tables.h"
#include "reports/tables/training_table.h"

namespace stbench::reports {

SuiteTables tables_of(const std::string& suite) {
  if (suite == "transfer") return {movement_tables};
  if (suite == "memory") return {memory_tables, true};
  if (suite == "infinitybatch") return {training_tables, true};
  if (suite == "optimizer" || suite == "embedding" || suite == "contiguous") return {step_tables};
  return {plain_table};
}

void know_axes_of_suites() {
  const Columns axes = {{"cache", "warm"},
                        {"cache_bytes", std::int64_t{0}},
                        {"callers", std::int64_t{1}},
                        {"clip", 0.0},
                        {"engine", "gloo"},
                        {"index_home", "ready"},
                        {"isa", "best"},
                        {"micro_batch", "auto"},
                        {"model", "mlp"},
                        {"negatives", std::int64_t{5}},
                        {"optimizer", "Adam"},
                        {"ranks", std::int64_t{2}},
                        {"remote", "drawn"},
                        {"shape", "even"},
                        {"sharding", "blocks"},
                        {"touched", 1.0}};
  for (const auto& [name, standard] : axes) know_axis(name, standard);
}

namespace {
const bool known = (know_axes_of_suites(), true);
}

}  // namespace stbench::reports

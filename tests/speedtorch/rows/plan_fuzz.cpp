/// The fuzz target of plans of row movements (SPEEDTORCH_PLAN, `stbench tune`). Any text is a plan or a
/// RowPlanError, and a plan that was read is written and read again as the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "speedtorch/kernels/error.h"
#include "speedtorch/rows/plan_text.h"
#include "tests/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace speedtorch;
  namespace test = stbench::test;
  kernels::Plan plan;
  try {
    plan = plan_of(parse_entries(test::text_of(data, size), "fuzz"));
  } catch (const RowPlanError& error) {
    test::check_message(error.what(), 2);
    test::require(std::string_view(error.what()).size() < 1000, "a refusal is short");
    return 0;
  }
  const auto written = to_text(plan_entries(plan));
  test::require(plan_of(parse_entries(written, "again")) == plan,
                "a plan that was written is read as the same");
  return 0;
}

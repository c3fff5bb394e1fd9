// A program that calls the kernels with the library's threads and nothing else of the library. It links only
// the objects that it needs, and its rows move by the plan that SPEEDTORCH_PLAN names all the same.

#include <gmock/gmock.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "speedtorch/error.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/threads.h"
#include "tests/harness/message_of.h"

namespace speedtorch {
namespace {

using stbench::test::message_of;

TEST(PlannedKernels, RefuseAPlanThatCannotBeRead) {
  ASSERT_EQ(::setenv("SPEEDTORCH_PLAN", "absent.plan", 1), 0);
  const std::array<std::byte, 64> table{};
  std::array<std::byte, 64> out{};
  const std::array<std::int64_t, 2> index{1, 0};
  EXPECT_EQ(message_of<RowPlanError>([&] {
              kernels::gather_rows({table.data(), 2, 32, 32}, index.data(), 2, {out.data(), 2, 32, 32},
                                   parallel_for);
            }),
            "the plan 'absent.plan' cannot be read: No such file or directory");
}

}  // namespace
}  // namespace speedtorch

// The ratios that SpeedTorch's README prints (third edition, 2019-09-20), recomputed from the seconds it
// prints: the comparison column of SpeedTorch must come out of our own code.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reports/statistics/role.h"
#include "reports/statistics/statistics.h"
#include "reports/style.h"
#include "reports/tables/table.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/suites.h"

namespace stbench::reports {
namespace {

struct Published {
  std::string direction, placement;
  double speedtorch_s, pytorch_s;
  std::string speedtorch_ratio, pytorch_ratio;
};

const std::vector<Published> kPublished = {
    {"to", "cuda", 0.0087, 0.0014, "6.2× slower", "6.2× faster"},
    {"to", "PinnedCPU", 0.0154, 0.0478, "3.1× faster", "3.1× slower"},
    {"from", "cuda", 0.0035, 0.0341, "9.7× faster", "9.7× slower"},
    {"from", "PinnedCPU", 0.0065, 2.6641, "410× faster", "410× slower"},
    {"sum", "cuda", 0.0122, 0.0355, "2.9× faster", "2.9× slower"},
    {"sum", "PinnedCPU", 0.0219, 2.7119, "124× faster", "124× slower"},
};

Record row(const Published& published, const std::string& method, double seconds) {
  Record record = measured(published.direction, published.placement, method, 1);
  record.samples_s.clear();
  summarise(record);
  record.median_s = seconds;
  return record;
}

TEST(SpeedTorchRatios, AllTwelveFollowFromSpeedTorchsSeconds) {
  for (const Published& published : kPublished) {
    // PyTorch's row stands as LibTorch's only method; then SpeedTorch's does, for the ratio from the other
    // side.
    std::vector<Record> records = {row(published, "speedtorch", published.speedtorch_s),
                                   row(published, "advanced", published.pytorch_s)};
    derive(records);
    EXPECT_EQ(faster_text(records[0].speedup.value()), published.speedtorch_ratio);
    set_role(records[0], Role::libtorch), set_role(records[1], Role::ours);
    derive(records);
    EXPECT_EQ(faster_text(records[1].speedup.value()), published.pytorch_ratio);
  }
}

TEST(SpeedTorchRatios, OurTablesReproduceSpeedTorchs) {
  Report report;
  report.axes = {"cache", "callers", "index_home", "isa"};
  for (const Published& published : kPublished) {
    report.records.push_back(row(published, "speedtorch", published.speedtorch_s));
    report.records.push_back(row(published, "advanced", published.pytorch_s));
  }
  derive(report.records);
  const std::string screen = render_tables(report, Style::plain, tables_of);
  for (const Published& published : kPublished) {
    EXPECT_NE(screen.find(published.speedtorch_ratio), std::string::npos) << published.speedtorch_ratio;
  }
  // 64 MiB in 8.7 ms are the 7.7 GB/s of the inventory.
  EXPECT_NE(screen.find("speedtorch(cuda)       8.700  7.71"), std::string::npos) << screen;
}

}  // namespace
}  // namespace stbench::reports

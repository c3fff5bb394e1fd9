#include "reports/record.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "reports/error.h"
#include "tests/reports/sample_report.h"

namespace stbench::reports {
namespace {

TEST(Record, StatusesHaveTheirNames) {
  EXPECT_EQ(to_string(Status::ok), "ok");
  EXPECT_EQ(to_string(Status::unstable), "unstable");
  EXPECT_EQ(to_string(Status::waived), "waived");
  EXPECT_EQ(to_string(Status::wrong), "wrong");
  EXPECT_EQ(to_string(Status::failed), "failed");
  EXPECT_EQ(status_from("waived"), Status::waived);
  EXPECT_THROW(status_from("OK"), ReportError);
  EXPECT_THROW(status_from(""), ReportError);
}

TEST(Record, WorseIsFurtherFromOk) {
  EXPECT_EQ(worse(Status::ok, Status::unstable), Status::unstable);
  EXPECT_EQ(worse(Status::failed, Status::wrong), Status::failed);
  EXPECT_EQ(worse(Status::ok, Status::ok), Status::ok);
}

TEST(Record, OnlyOkAndUnstableHaveNumbers) {
  EXPECT_TRUE(has_numbers(Status::ok));
  EXPECT_TRUE(has_numbers(Status::unstable));
  for (const Status status : {Status::waived, Status::wrong, Status::failed})
    EXPECT_FALSE(has_numbers(status));
}

TEST(Record, ACellIsEverythingButTheMethod) {
  const Identity id = measured("to", "hugepage", "speedtorch", 1).id;
  const std::string kOther = "another";
  Identity other = id;
  other.method = "advanced";
  EXPECT_TRUE(id.same_cell(other));
  const std::vector<std::function<void(Identity&)>> changes = {
      [&](Identity& i) { i.suite = kOther; },
      [&](Identity& i) { i.direction = kOther; },
      [&](Identity& i) { i.placement = kOther; },
      [&](Identity& i) { i.device = kOther; },
      [&](Identity& i) { i.dtype = kOther; },
      [&](Identity& i) { i.index_dtype = kOther; },
      [&](Identity& i) { i.distribution = kOther; },
      [&](Identity& i) { i.rows = 1; },
      [&](Identity& i) { i.dim = 1; },
      [&](Identity& i) { i.batch = 1; },
      [&](Identity& i) { i.cores = 1; },
      [&](Identity& i) { i.axes[0].second = "cold"; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Identity changed = id;
    changes[i](changed);
    EXPECT_FALSE(id.same_cell(changed)) << "change " << i;
  }
}

TEST(Record, FindsACellByName) {
  const Columns columns = {{"a", std::int64_t{1}}, {"b", "two"}};
  EXPECT_EQ(*find(columns, "b"), Value("two"));
  EXPECT_EQ(find(columns, "c"), nullptr);
}

}  // namespace
}  // namespace stbench::reports

#include "reports/columns.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "reports/error.h"
#include "tests/reports/random_report.h"
#include "tests/reports/sample_report.h"

namespace stbench::reports {
namespace {

TEST(Columns, AreThoseOfTheSchemaInItsOrder) {
  std::vector<std::string> names;
  for (const Column& column : fixed_columns()) names.emplace_back(column.name);
  EXPECT_EQ(names, kSchemaColumns);
  EXPECT_EQ(identity_columns().size(), 12U);
  EXPECT_EQ(identity_columns().back().name, "cores");
}

TEST(Columns, GetAndSetAreTheSameField) {
  const Record full = measured("to", "hugepage", "speedtorch", 0.004);
  Record copy;
  for (const Column& column : fixed_columns()) column.set(copy, column.get(full));
  for (const Column& column : fixed_columns()) EXPECT_EQ(column.get(copy), column.get(full)) << column.name;
}

TEST(Columns, RefuseCellsOfTheWrongKind) {
  for (const Column& column : fixed_columns()) {
    Record record;
    const Value wrong = column.kind == Kind::text ? Value(1.5) : Value("x");
    EXPECT_THROW(column.set(record, wrong), ReportError) << column.name;
    if (column.kind == Kind::integer) {
      EXPECT_THROW(column.set(record, 1.5), ReportError) << column.name;
      EXPECT_THROW(column.set(record, std::int64_t{-1}), ReportError) << column.name;
      EXPECT_THROW(column.set(record, Value()), ReportError) << column.name;
    }
    if (column.kind == Kind::real) {
      EXPECT_THROW(column.set(record, -0.5), ReportError) << column.name;
      EXPECT_THROW(column.set(record, std::int64_t{-1}), ReportError) << column.name;
    }
  }
}

TEST(Columns, NamesMustBeDistinct) {
  Report report = sample_report();
  EXPECT_EQ(layout_of(report).more, (std::vector<std::string>{"repeat", "pages_got", "throttled", "group"}));
  for (const std::string name : {"rows", "cache", "samples_s", "", "repeat"}) {
    Report bad = report;
    bad.records[3].more.emplace_back(name, std::int64_t{1});
    EXPECT_THROW(layout_of(bad), ReportError) << name;
  }
  report.axes.push_back("cache");
  EXPECT_THROW(layout_of(report), ReportError);
}

TEST(Columns, AnAxisOfACaseMustBeOneOfTheReport) {
  Report report = sample_report();
  report.axes.pop_back();
  EXPECT_THROW(layout_of(report), ReportError);
}

TEST(Columns, NonFiniteNumbersAreNull) {
  EXPECT_EQ(cell_of({{"x", std::numeric_limits<double>::infinity()}}, "x"), Value());
  EXPECT_EQ(cell_of({{"x", 2.5}}, "x"), Value(2.5));
  EXPECT_EQ(cell_of({{"x", 2.5}}, "y"), Value());
}

TEST(Columns, KeysAreEqualWhereTheIdentityIs) {
  const Record record = measured("to", "hugepage", "speedtorch", 1);
  Record other = measured("to", "hugepage", "copy", 2);
  EXPECT_EQ(identity_key(record, {"method"}), identity_key(other, {"method"}));
  EXPECT_NE(identity_key(record, {}), identity_key(other, {}));
  other.id.axes[0].second = "cold";
  EXPECT_NE(identity_key(record, {"method"}), identity_key(other, {"method"}));
  // A text must not be able to look like the next part.
  Record one = record;
  Record two = record;
  one.id.device = "a dtype=1:b";
  one.id.dtype = "c";
  two.id.device = "a";
  two.id.dtype = "b c";
  EXPECT_NE(identity_key(one, {}), identity_key(two, {}));
}

}  // namespace
}  // namespace stbench::reports

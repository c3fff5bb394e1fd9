#include "reports/tables/listing.h"

#include <gmock/gmock.h>

namespace stbench::reports {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;

std::string method_of(const Identity& id) { return "case " + id.method; }

Report report() {
  Report made;
  made.axes = {"cache"};
  for (const auto& [method, speed, pages] :
       std::vector<std::tuple<std::string, std::optional<double>, std::string>>{
           {"a", 10.0, "4KiB"}, {"b", std::nullopt, "2MiB"}, {"c", 9.25, "2MiB"}, {"d", 100.0, "4KiB"}}) {
    Record record;
    record.id.method = method;
    record.id.axes = {{"cache", "warm"}};
    record.gb_per_s = speed;
    record.more = {{"pages_got", pages}};
    made.records.push_back(record);
  }
  return made;
}

std::string methods(const Report& of) {
  std::string text;
  for (const auto& record : of.records) text += record.id.method;
  return text;
}

TEST(Listing, HasTheColumnsThatAreNamed) {
  EXPECT_EQ(listing(report(), {"gb_per_s", "pages_got", "cache", "case"}, Style::plain, method_of),
            "gb_per_s  pages_got  cache  case\n"
            "   10.00  4KiB       warm   case a\n"
            "          2MiB       warm   case b\n"
            "   9.250  2MiB       warm   case c\n"
            "   100.0  4KiB       warm   case d\n");
}

TEST(Listing, SortsByNumbersAndTexts) {
  const auto sorted = [](const std::string& column, bool down) {
    auto of = report();
    sort_by(of, column, down, method_of);
    return methods(of);
  };
  EXPECT_EQ(sorted("gb_per_s", false), "cadb");  // as numbers, the row without one last
  EXPECT_EQ(sorted("gb_per_s", true), "dacb");
  EXPECT_EQ(sorted("pages_got", false), "bcad");  // equal ones keep their order
  EXPECT_EQ(sorted("case", true), "dcba");
  EXPECT_EQ(sorted("cache", true), "abcd");
}

TEST(Listing, KnowsAllColumns) {
  const auto names = listed_columns(report());
  EXPECT_EQ(names.front(), "case");
  EXPECT_THAT(names, IsSupersetOf({"suite", "mismatches", "cache", "pages_got"}));
  EXPECT_THAT(names, IsSupersetOf(usual_columns()));
}

}  // namespace
}  // namespace stbench::reports

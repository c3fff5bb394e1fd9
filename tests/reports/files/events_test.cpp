#include "reports/files/events.h"

#include <gmock/gmock.h>

#include "reports/error.h"
#include "reports/files/csv.h"
#include "reports/files/json.h"
#include "reports/statistics/statistics.h"
#include "tests/reports/random_report.h"
#include "tests/reports/sample_report.h"

namespace stbench::reports {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// What a run writes that adds one record after the other.
std::string lines_of(const Report& report, bool to_the_end = true) {
  EventLines events;
  Report so_far = report;
  so_far.records.clear();
  std::string text = events.update(so_far);
  for (const Record& record : report.records) {
    so_far.records.push_back(record);
    text += events.update(so_far);
  }
  return to_the_end ? text + events.end(so_far) : text;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

Report sample() {
  Report report = sample_report();
  derive(report.records);
  return report;
}

TEST(Events, EventsOfAWholeRunEqualItsReport) {
  const Report report = sample();
  const auto text = lines_of(report);
  EXPECT_TRUE(are_events(text));
  EXPECT_EQ(to_json(from_events(text, "e")), to_json(report));
}

TEST(Events, HaveNoConclusionOfNoCases) { EXPECT_EQ(count(lines_of(sample()), "conclusion"), 0U); }

TEST(Events, HaveOneLineACaseAndOneMoreWhereItChanged) {
  Report report = sample();
  ASSERT_GE(report.records.size(), 2U);
  EventLines events;
  auto text = events.update(report);
  EXPECT_EQ(count(text, "\n"), 1 + report.records.size());
  EXPECT_EQ(events.update(report), "");
  report.records[1].status = Status::failed;
  report.records[1].reason = "a last check";
  const auto more = events.update(report);
  EXPECT_EQ(count(more, "\n"), 1U);
  EXPECT_THAT(more, HasSubstr("a last check"));
  const auto read = from_events(text + more, "e");
  ASSERT_EQ(read.records.size(), report.records.size());
  EXPECT_EQ(read.records[1].status, Status::failed);  // in its place: the last line about it holds
}

TEST(Events, WithoutAnEndAreAnInterruptedRun) {
  const Report report = sample();
  auto text = lines_of(report, false);
  EXPECT_TRUE(from_events(text, "e").interrupted);
  EXPECT_EQ(from_events(text, "e").records.size(), report.records.size());
  text.resize(text.size() - 40);  // killed while it wrote the last line
  EXPECT_EQ(from_events(text, "e").records.size(), report.records.size() - 1);
}

TEST(Events, AreToldFromOtherReports) {
  EXPECT_FALSE(are_events(to_json(sample())));
  EXPECT_FALSE(are_events(to_csv(sample())));
  EXPECT_FALSE(are_events(""));
}

TEST(Events, BrokenLineIsRefusedWithItsNumber) {
  const auto text = lines_of(sample());
  const auto first = text.find('\n') + 1;
  const auto refused = [](const std::string& lines, const std::string& words) {
    EXPECT_THAT([&] { from_events(lines, "e.jsonl"); }, ThrowsMessage<ReportError>(HasSubstr(words)))
        << words;
  };
  refused(text.substr(0, first) + "{\"event\":\"other\"}\n", "e.jsonl: line 2: is no event of a run");
  refused(text.substr(0, first) + "[]\n", "e.jsonl: line 2");
  refused(text.substr(0, first) + "{\"event\":\"case\"}\n", "e.jsonl: line 2");
  refused(text.substr(0, first) + "{\"event\":3}\n", "e.jsonl: line 2");
  refused(text.substr(0, first) + "not JSON\n", "e.jsonl: line 2");
  refused(text.substr(0, first) + std::string(100'000, '[') + "\n", "nests deeper");
  refused(text.substr(0, first) + "{\"event\":\"case\",\"case\":{}}\n", "e.jsonl: cases[0]: field");
  refused(text + text, "is no event of a run");  // two runs in one file
  refused("{\"event\":\"start\"", "cut off");
}

}  // namespace
}  // namespace stbench::reports

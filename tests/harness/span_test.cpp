#include "harness/span.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace stbench::harness {
namespace {

using Json = nlohmann::json;

/// The complete events of a trace, without the line that names the process.
std::vector<Json> events_of(const Trace& trace) {
  const auto document = Json::parse(trace.to_json("stbench 1.2.3"));
  std::vector<Json> events;
  for (const auto& event : document["traceEvents"]) {
    if (event["ph"] == "X") events.push_back(event);
  }
  return events;
}

TEST(TraceOfSpans, HasEachSpanOnceTheOuterBeforeTheInner) {
  const Trace trace;
  {
    const Span outer("group", "to \"all\"");
    const Span inner("verify", "one");
  }
  const auto events = events_of(trace);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["name"], "group: to \"all\"");
  EXPECT_EQ(events[0]["cat"], "group");
  EXPECT_EQ(events[0]["args"]["subject"], "to \"all\"");
  EXPECT_EQ(events[1]["name"], "verify: one");
  EXPECT_LE(events[0]["ts"], events[1]["ts"]);
  EXPECT_GE(events[0]["ts"].get<double>() + events[0]["dur"].get<double>(),
            events[1]["ts"].get<double>() + events[1]["dur"].get<double>());
}

TEST(TraceOfSpans, SaysHowManyRunsASampleHas) {
  Trace trace;
  const double begin = steady_now();
  trace.add("timed", "case", begin, begin + 2e-3, 16);
  const auto events = events_of(trace);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_NEAR(events[0]["dur"].get<double>(), 2000, 1e-3);
  EXPECT_EQ(events[0]["args"]["runs"], 16);
}

TEST(TraceOfSpans, NamesTheProgram) {
  const Trace trace;
  const auto document = Json::parse(trace.to_json("stbench 1.2.3"));
  EXPECT_EQ(document["traceEvents"][0]["args"]["name"], "stbench 1.2.3");
}

TEST(Spans, AreSeenWhileThereIsATrace) {
  EXPECT_FALSE(spans_are_seen());
  {
    const Trace trace;
    EXPECT_TRUE(spans_are_seen());
    EXPECT_EQ(Trace::current(), &trace);
  }
  EXPECT_EQ(Trace::current(), nullptr);
  const Span unseen("nobody", "looks");
}

}  // namespace
}  // namespace stbench::harness

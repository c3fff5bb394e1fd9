#include "reports/files/csv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "reports/error.h"
#include "reports/files/json.h"
#include "tests/reports/random_report.h"
#include "tests/reports/sample_report.h"

namespace stbench::reports {
namespace {

std::string header() {
  std::string text;
  for (const std::string& name : kSchemaColumns) text += name + ",";
  text.pop_back();
  return text;
}

const std::string kLine =
    "transfer,to,hugepage,speedtorch,cpu,float32,int64,unique,1000,128,10,2,ok,,11,0.5,,,,,,5120,80,,,,10,0";

std::string csv_error(const std::string& text) {
  try {
    from_csv(text, "t.csv");
  } catch (const ReportError& error) {
    return error.what();
  }
  return "no error";
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
}

TEST(Csv, RoundTripsRandomReportsToTheBit) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Report report = random_report(seed);
    const Report back = from_csv(to_csv(report), "t.csv");
    ASSERT_EQ(back.axes, report.axes);
    // A column that is null in every case has no cell to come back with; the JSON has it no more either.
    ASSERT_EQ(to_csv(back), to_csv(from_json(to_json(report), "t.json"))) << "seed " << seed;
    Report names = back;
    for (Record& record : names.records) {
      for (const Record& original : report.records) {
        for (const auto& [name, value] : original.more) {
          if (find(record.more, name) == nullptr) record.more.emplace_back(name, Value());
        }
      }
    }
    ASSERT_EQ(dump_cases(names), dump_cases(report)) << "seed " << seed;
  }
}

TEST(Csv, WritesTheHeaderAndCrlf) {
  EXPECT_EQ(to_csv(Report()), header() + "\r\n");
  Report report;
  report.axes = {"cache"};
  EXPECT_EQ(to_csv(report), header() + ",cache\r\n");
}

TEST(Csv, QuotesTextsThatLookLikeNumbersOrNothing) {
  Report report;
  report.records.emplace_back();
  report.records[0].more = {{"a", "12"},    {"b", std::int64_t{12}}, {"c", ""},
                            {"d", Value()}, {"e", "-1e5"},           {"f", 12.0}};
  EXPECT_TRUE(to_csv(report).ends_with(",\"12\",12,\"\",,\"-1e5\",12.0\r\n")) << to_csv(report);
}

TEST(Csv, NullAndNotFiniteAreEmpty) {
  Report report;
  report.records.emplace_back().id.suite = "memory";
  report.records[0].median_s = std::numeric_limits<double>::quiet_NaN();
  report.records[0].more = {{"x", std::numeric_limits<double>::infinity()}};
  const Report back = from_csv(to_csv(report), "t.csv");
  EXPECT_FALSE(back.records[0].median_s);
  EXPECT_TRUE(back.records[0].more.empty());
}

TEST(Csv, KeepsBytesThatAnyoneCanRead) {
  Report report;
  report.records.emplace_back().median_s = 1;
  report.records[0].reason = "bad \xFF byte";
  report.records[0].id.suite = std::string("nul\0here", 8);
  const Report back = from_csv(to_csv(report), "t.csv");
  EXPECT_EQ(back.records[0].reason, "bad \xEF\xBF\xBD byte");
  EXPECT_EQ(back.records[0].id.suite, std::string("nul\0here", 8));
}

TEST(Csv, ReadsBomLfBlankLinesAnyOrderAndNoLastLineEnd) {
  std::string moved = header();
  replace(moved, "suite,direction", "direction,suite");
  const std::string lf = "\xEF\xBB\xBF" + moved + "\n\n" + kLine;
  const Report report = from_csv(lf, "t.csv");
  ASSERT_EQ(report.records.size(), 1U);
  EXPECT_EQ(report.records[0].id.direction, "transfer");
  EXPECT_EQ(report.records[0].id.suite, "to");
  EXPECT_EQ(report.records[0].median_s, 0.5);
}

TEST(Csv, KnowsTheAxesAmongTheFurtherColumns) {
  const std::string text = header() + ",cache,pages_got,isa\r\n" + kLine + ",cold,huge,\r\n";
  const Report report = from_csv(text, "t.csv");
  EXPECT_EQ(report.axes, (std::vector<std::string>{"cache", "isa"}));
  EXPECT_EQ(report.records[0].id.axes, (Columns{{"cache", "cold"}}));
  EXPECT_EQ(report.records[0].more, (Columns{{"pages_got", "huge"}}));
}

TEST(Csv, ATimeMayBeMissingOnAnEmulatedGpu) {
  std::string line = kLine;
  replace(line, "ok,,11,0.5", "ok,emulated GPU: not timed,0,");
  EXPECT_FALSE(from_csv(header() + "\r\n" + line + "\r\n", "t.csv").records[0].median_s);
}

struct BadCsv {
  std::string what;
  std::string text;
  std::vector<std::string> words;  // that the message must have
};

std::vector<BadCsv> bad_texts() {
  const auto line_with = [](const std::string& from, const std::string& to) {
    std::string line = kLine;
    replace(line, from, to);
    return header() + "\r\n" + kLine + "\r\n" + line + "\r\n";
  };
  std::string missing = header();
  replace(missing, ",median_s", "");
  return {
      {"empty", "", {"t.csv", "is empty"}},
      {"blank", "\r\n\r\n", {"is empty"}},
      {"column missing", missing + "\r\n", {"line 1", "median_s", "missing"}},
      {"column twice", header() + ",rows\r\n", {"line 1", "\"rows\" appears twice"}},
      {"column without a name", header() + ",\r\n", {"line 1", "no name"}},
      {"samples in a CSV", header() + ",samples_s\r\n", {"samples_s", "JSON"}},
      {"cell missing",
       header() + "\r\n" + kLine.substr(0, kLine.rfind(',')) + "\r\n",
       {"line 2", "27 cells", "28"}},
      {"cell too many", header() + "\r\n" + kLine + ",1\r\n", {"line 2", "29 cells", "28"}},
      {"truncated", header() + "\r\n" + kLine.substr(0, 40), {"line 2", "cells"}},
      {"no number", line_with("0.5", "fast"), {"line 3", "median_s", "\"fast\"", "number"}},
      {"quoted number", line_with("0.5", "\"0.5\""), {"line 3", "median_s", "\"0.5\""}},
      {"NaN", line_with("0.5", "nan"), {"line 3", "median_s"}},
      {"infinite", line_with("0.5", "1e999"), {"line 3", "median_s"}},
      {"fraction", line_with("1000,", "1000.5,"), {"line 3", "rows", "1000.5", "integer"}},
      {"too large", line_with("1000,", "9223372036854775808,"), {"line 3", "rows", "integer"}},
      {"negative", line_with("1000,", "-1,"), {"line 3", "rows", "-1"}},
      {"negative time", line_with("0.5", "-0.5"), {"line 3", "median_s", "-0.5", "from 0 on"}},
      {"no time", line_with("0.5", ""), {"line 3", "median_s", "is empty", "emulated GPU: not timed"}},
      {"unstable without a time",
       line_with("ok,,11,0.5", "unstable,emulated GPU: not timed,11,"),
       {"line 3", "median_s", "is empty"}},
      {"no rows", line_with("1000,", ","), {"line 3", "rows", "empty"}},
      {"no status", line_with("ok", "good"), {"line 3", "status", "\"good\"", "unstable"}},
      {"open quote", header() + "\r\n\"" + kLine + "\r\n", {"line 3", "quote"}},
      {"stray quote", line_with("cpu", "c\"pu"), {"line 3", "quote"}},
      {"text after a quote", line_with("cpu", "\"c\"pu"), {"line 3", "quote"}},
      {"lines inside quotes are counted", line_with("cpu", "\"a\r\nb\"") + "x\r\n", {"line 5", "1 cells"}},
  };
}

TEST(Csv, SaysWhatIsWrongAndWhere) {
  for (const BadCsv& bad : bad_texts()) {
    const std::string message = csv_error(bad.text);
    for (const std::string& word : bad.words) {
      EXPECT_NE(message.find(word), std::string::npos)
          << bad.what << ": \"" << message << "\" lacks " << word;
    }
  }
}

TEST(Csv, EveryTruncationIsAReportOrAnError) {
  const std::string whole = to_csv(random_report(5)) + to_csv(sample_report()).substr(0, 2000);
  std::size_t refused = 0;
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    if (csv_error(whole.substr(0, size)) != "no error") ++refused;
  }
  EXPECT_GT(refused, whole.size() / 7 / 2);
}

}  // namespace
}  // namespace stbench::reports

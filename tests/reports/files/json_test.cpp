#include "reports/files/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "reports/error.h"
#include "reports/files/csv.h"
#include "reports/style.h"
#include "reports/tables/answer.h"
#include "tests/reports/random_report.h"
#include "tests/reports/sample_report.h"

namespace stbench::reports {
namespace {

std::string json_error(const std::string& text) {
  try {
    from_json(text, "t.json");
  } catch (const ReportError& error) {
    return error.what();
  }
  return "no error";
}

/// The sample report with one thing changed.
template <typename Change>
std::string changed(Change change) {
  auto document = nlohmann::ordered_json::parse(to_json(sample_report()));
  change(document);
  return document.dump();
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = to_json(sample_report());
  return text.replace(text.find(from), from.size(), to);
}

TEST(Json, RoundTripsRandomReportsToTheByte) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Report report = random_report(seed);
    const Report back = from_json(to_json(report), "t.json");
    EXPECT_EQ(back.program, report.program);
    EXPECT_EQ(back.argv, report.argv);
    EXPECT_EQ(back.seed, report.seed);
    EXPECT_EQ(back.started_at, report.started_at);
    EXPECT_EQ(back.environment, report.environment);
    EXPECT_EQ(back.warnings, report.warnings);
    EXPECT_EQ(back.axes, report.axes);
    EXPECT_EQ(back.interrupted, report.interrupted);
    ASSERT_EQ(back.records.size(), report.records.size());
    for (std::size_t i = 0; i < back.records.size(); ++i) {
      EXPECT_EQ(back.records[i].samples_s, report.records[i].samples_s);
    }
    ASSERT_EQ(to_json(from_json(to_json(back), "t.json")), to_json(back)) << "seed " << seed;
  }
}

TEST(Json, SaysTheSameAsTheCsv) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Report report = random_report(seed);
    const Report from_lines = from_csv(to_csv(report), "t.csv");
    const Report from_object = from_json(to_json(report), "t.json");
    ASSERT_EQ(dump_cases(from_lines), dump_cases(from_object)) << "seed " << seed;
  }
}

TEST(Json, EmptyReportIsAnObject) {
  const auto document = nlohmann::json::parse(to_json(Report()));
  EXPECT_EQ(document["schema_version"], "1.6");
  EXPECT_EQ(document["interrupted"], false);
  EXPECT_EQ(document["environment"], nlohmann::json::object());
  EXPECT_TRUE(document["cases"].is_array() && document["cases"].empty());
  EXPECT_TRUE(from_json(to_json(Report()), "t.json").records.empty());
}

TEST(Json, HasTheConclusionThatTheTerminalShows) {
  const Report report = sample_report();
  const auto document = nlohmann::json::parse(to_json(report));
  std::string text;
  for (const auto& sentence : document["conclusion"])
    text += reports::lines_of(sentence.get<std::string>(), 0);
  EXPECT_EQ(text, answer(report));
  EXPECT_EQ(text.find("Keep such a table"), 0U);
  EXPECT_EQ(nlohmann::json::parse(to_json(Report()))["conclusion"], nlohmann::json::array());
}

/// The cases decide, not the field: whoever edits a case gets the conclusion of the edited cases.
TEST(Json, TheConclusionIsNotRead) {
  const std::string text = changed([](auto& document) { document["conclusion"] = {"Keep it in a drawer."}; });
  EXPECT_EQ(to_json(from_json(text, "t.json")).find("drawer"), std::string::npos);
}

TEST(Json, NonFiniteNumbersAreNull) {
  Report report;
  report.records.emplace_back().id.suite = "memory";
  report.records[0].median_s = std::numeric_limits<double>::quiet_NaN();
  report.records[0].samples_s = {1.0, std::numeric_limits<double>::infinity()};
  const std::string text = to_json(report);
  EXPECT_NE(text.find("\"median_s\": null"), std::string::npos);
  EXPECT_NE(text.find("\"samples_s\": [1.0, null]"), std::string::npos);
  EXPECT_TRUE(std::isnan(from_json(text, "t.json").records[0].samples_s[1]));
}

TEST(Json, BytesThatAreNotUtf8AreReplacedEverywhere) {
  Report report;
  report.program = "a\xFF";
  report.environment = {{"cpu", {{"model", "b\xC3"}}}};
  report.records.emplace_back().median_s = 1;
  report.records[0].reason = "c\x80";
  const Report back = from_json(to_json(report), "t.json");
  EXPECT_EQ(back.program, "a\xEF\xBF\xBD");
  EXPECT_EQ(back.environment["cpu"]["model"], "b\xEF\xBF\xBD");
  EXPECT_EQ(back.records[0].reason, "c\xEF\xBF\xBD");
}

TEST(Json, KeepsSingleValuesOfLaterMinorVersions) {
  const std::string text = changed([](auto& document) {
    document["schema_version"] = "1.7";
    document["later"] = {{"x", 1}};
    document["cases"][0]["joules"] = 2.5;
    document["cases"][0]["hot"] = true;
    document["cases"][0]["steps"] = {1, 2};
  });
  const Report report = from_json(text, "t.json");
  EXPECT_EQ(report.schema_version, "1.7");
  EXPECT_EQ(*find(report.records[0].more, "joules"), Value(2.5));
  EXPECT_EQ(*find(report.records[0].more, "hot"), Value(std::int64_t{1}));
  EXPECT_EQ(find(report.records[0].more, "steps"), nullptr);
}

TEST(Json, ReadsAByteOrderMarkAndAMissingInterrupted) {
  const std::string text = changed([](auto& document) { document.erase("interrupted"); });
  EXPECT_FALSE(from_json("\xEF\xBB\xBF" + text, "t.json").interrupted);
}

struct BadJson {
  std::string what;
  std::string text;
  std::vector<std::string> words;  // that the message must have
};

std::vector<BadJson> bad_syntax() {
  const std::string deep(100'000, '[');
  const std::string closed = deep + std::string(100'000, ']');
  const std::string whole = to_json(sample_report());
  return {
      {"empty", "", {"t.json", "line 1"}},
      {"truncated", whole.substr(0, whole.size() / 2), {"syntax error"}},
      {"last bracket missing", whole.substr(0, whole.size() - 3), {"syntax error"}},
      {"something after it", whole + "x", {"syntax error"}},
      {"deep", deep, {"deeper than 32"}},
      {"deep and closed", closed, {"deeper than 32"}},
      {"deep inside", replaced("\"gpu\": {}", "\"gpu\": {\"x\": " + closed + "}"), {"deeper than 32"}},
      {"key twice", replaced("\"gpu\": {}", "\"gpu\": {}, \"cpu\": {}"), {"\"cpu\" appears twice"}},
      {"key of a case twice",
       replaced("\"rows\": 1000000", "\"rows\": 1, \"rows\": 2"),
       {"\"rows\" appears twice"}},
      {"NaN", replaced("\"median_s\": 0.0075", "\"median_s\": NaN"), {"syntax error"}},
      {"infinite", replaced("\"median_s\": 0.0075", "\"median_s\": 1e999"), {"number overflow"}},
      {"not UTF-8", replaced("stbench 0.1.0", "\xFF"), {"UTF-8"}},
  };
}

std::vector<BadJson> bad_fields() {
  const auto field = [](const char* name, const nlohmann::ordered_json& value) {
    return changed([&](auto& document) { document["cases"][3][name] = value; });
  };
  const auto top = [](const char* name, const nlohmann::ordered_json& value) {
    return changed([&](auto& document) { document[name] = value; });
  };
  return {
      {"no object", "[]", {"is an array", "an object would be right"}},
      {"another major version", top("schema_version", "2.0"), {"schema_version", "2.0", "1.x"}},
      {"not a version", top("schema_version", "10"), {"schema_version"}},
      {"version as a number", top("schema_version", 1.0), {"schema_version", "a text"}},
      {"seed too large", replaced("18446744073709551615", "18446744073709551616"), {"seed", "2^64-1"}},
      {"seed negative", top("seed", -1), {"seed"}},
      {"argv no array", top("argv", "x"), {"argv", "an array"}},
      {"warning no text", top("warnings", {"a", 1}), {"warnings[1]", "a text"}},
      {"environment no object", top("environment", {{"cpu", 1}}), {"environment.cpu", "an object"}},
      {"interrupted no boolean", top("interrupted", 0), {"interrupted", "true or false"}},
      {"axis twice", top("axes", {"cache", "cache"}), {"\"cache\"", "twice"}},
      {"axis that is a column", top("axes", {"rows"}), {"\"rows\"", "twice"}},
      {"cases missing", changed([](auto& d) { d.erase("cases"); }), {"\"cases\" is missing"}},
      {"case no object", changed([](auto& d) { d["cases"][3] = 1; }), {"cases[3]", "an object"}},
      {"field missing",
       changed([](auto& d) { d["cases"][3].erase("dim"); }),
       {"cases[3]", "\"dim\" is missing"}},
      {"samples missing",
       changed([](auto& d) { d["cases"][3].erase("samples_s"); }),
       {"cases[3]", "samples_s"}},
      {"sample no number", field("samples_s", {0.5, "x"}), {"cases[3].samples_s[1]", "a number"}},
      {"number as a text", field("median_s", "0.5"), {"cases[3].median_s", "\"0.5\"", "finite number"}},
      {"text as a number", field("suite", 1), {"cases[3].suite", "a text"}},
      {"text that is null", field("suite", nullptr), {"cases[3].suite", "a text"}},
      {"integer that is null", field("rows", nullptr), {"cases[3].rows"}},
      {"boolean", field("rows", true), {"cases[3].rows", "true"}},
      {"fraction", field("rows", 1.5), {"cases[3].rows", "1.5", "integer"}},
      {"integer of 64 bits", field("rows", 9'223'372'036'854'775'808U), {"cases[3].rows", "2^63-1"}},
      {"integer of more",
       replaced("\"rows\": 1000000", "\"rows\": 99999999999999999999"),
       {"cases[0].rows", "integer"}},
      {"negative", field("rows", -1), {"cases[3].rows", "-1"}},
      {"negative time", field("median_s", -1e-5), {"cases[3].median_s", "-1e-05", "from 0 on"}},
      {"no time",
       field("median_s", nullptr),
       {"cases[3].median_s", "is null", "\"emulated GPU: not timed\" would be right"}},
      {"negative speed", field("gb_per_s", -1), {"cases[3].gb_per_s", "from 0 on"}},
      {"negative sample", field("samples_s", {0.5, -0.5}), {"cases[3].samples_s[1]", "-0.5", "from 0 on"}},
      {"array", field("rows", {1}), {"cases[3].rows", "an array"}},
      {"no status", field("status", "fine"), {"cases[3].status", "\"fine\"", "unstable"}},
      {"axis an array", field("cache", {1}), {"cases[3].cache", "an array"}},
      {"plain column too large", field("joules", 9'223'372'036'854'775'808U), {"cases[3].joules", "2^63-1"}},
  };
}

/// @param begin of the message, as a regular expression
void expect_refused(const std::vector<BadJson>& texts, const char* begin) {
  for (const BadJson& bad : texts) {
    const std::string message = json_error(bad.text);
    EXPECT_TRUE(std::regex_search(message, std::regex(begin))) << bad.what << ": " << message;
    EXPECT_LT(message.size(), 400U) << bad.what;
    for (const std::string& word : bad.words) {
      EXPECT_NE(message.find(word), std::string::npos)
          << bad.what << ": \"" << message << "\" lacks " << word;
    }
  }
}

TEST(Json, RefusesWhatIsNotJson) { expect_refused(bad_syntax(), "^t\\.json, line [0-9]+, column [0-9]+: "); }

TEST(Json, SaysTheLineAndColumnOfWhatIsNotJson) {
  EXPECT_EQ(json_error("{\n \"a\": 1,\n \"a\": 2}"),
            "t.json, line 3, column 4: key \"a\" appears twice in an object");
  EXPECT_TRUE(json_error("\xEF\xBB\xBF[\n").starts_with("t.json, line 2, column 1: syntax error"));
  EXPECT_TRUE(json_error("[1,\n2e999]").starts_with("t.json, line 2, column 6: number overflow"));
}

TEST(Json, SaysWhichFieldIsWrongAndWhy) { expect_refused(bad_fields(), "^t\\.json: "); }

TEST(Json, ATimeMayBeNullWhereNothingWasTimed) {
  const auto without_time = [](const char* name, const char* value) {
    return changed([&](auto& document) {
      document["cases"][3]["median_s"] = nullptr;
      document["cases"][3][name] = value;
    });
  };
  for (const auto& text : {without_time("reason", "emulated GPU: not timed"), without_time("suite", "memory"),
                           without_time("status", "waived")})
    EXPECT_FALSE(from_json(text, "t.json").records[3].median_s);
  EXPECT_NE(json_error(without_time("reason", "emulated GPU")).find("cases[3].median_s: is null"),
            std::string::npos);
}

TEST(Json, EveryTruncationIsAnError) {
  const std::string whole = to_json(random_report(5));
  for (std::size_t size = 0; size + 2 < whole.size(); size += 13) {
    EXPECT_NE(json_error(whole.substr(0, size)), "no error") << size;
  }
}

}  // namespace
}  // namespace stbench::reports

#include "harness/case_id.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/harness/message_of.h"

namespace stbench::harness {
namespace {

using reports::Identity;
using reports::Value;
using stbench::test::message_of;
using testing::AllOf;
using testing::HasSubstr;

const AxisDefaults kTransferAxes{
    {"cache", "warm"}, {"callers", std::int64_t{1}}, {"index_home", "ready"}, {"isa", "best"}};
constexpr const char* kExample =
    "transfer to pinned -> speedtorch -> cuda:0 float32 10M×128 batch 131072 unique int64 cores=2";

Identity example() {
  return {"transfer", "to",     "pinned", "speedtorch", "cuda:0", "float32",    "int64",
          "unique",   10000000, 128,      131072,       2,        kTransferAxes};
}

TEST(CaseId, FormatIsTheOneOfTheDesign) {
  EXPECT_EQ(format_case(example(), kTransferAxes), kExample);
  EXPECT_EQ(parse_case(kExample, kTransferAxes), example());
}

TEST(CaseId, FormatNamesAxesThatAreNotAtTheirDefault) {
  Identity id = example();
  id.axes[0].second = "cold";
  id.axes[1].second = std::int64_t{4};
  const std::string case_id = format_case(id, kTransferAxes);
  EXPECT_EQ(case_id, std::string(kExample) + " cache=cold callers=4");
  EXPECT_EQ(parse_case(case_id, kTransferAxes), id);
}

TEST(CaseId, FootprintCaseHasNoBatchAndNoCores) {
  const AxisDefaults axes{{"touched", 1.0}};
  Identity id{"memory", "in", "hugepage", "speedtorch", "cpu", "float32", "", "", 10'000'000,
              128,      0,    0,          axes};
  const std::string case_id = "memory in hugepage -> speedtorch -> cpu float32 10M×128";
  EXPECT_EQ(format_case(id, axes), case_id);
  EXPECT_EQ(parse_case(case_id, axes, CaseKind::holds), id);
  id.axes[0].second = 0.25;
  EXPECT_EQ(format_case(id, axes), case_id + " touched=0.25");
  EXPECT_EQ(parse_case(case_id + " touched=0.25", axes, CaseKind::holds), id);
  for (const char* more : {" batch 5", " cores=2", " touched=half", " unique"}) {
    EXPECT_THAT(message_of<UsageError>([&] { parse_case(case_id + more, axes, CaseKind::holds); }),
                HasSubstr("right: memory in pinned -> speedtorch -> cuda:0 float32 10M×128"))
        << more;
  }
  EXPECT_THAT(message_of<UsageError>([&] { parse_case(case_id, axes); }),
              AllOf(HasSubstr("'batch' is missing"), HasSubstr("right: transfer to")));
}

TEST(CaseId, CaseWithoutIndicesHasCoresAndNoBatch) {
  const AxisDefaults axes{{"clip", 0.0}, {"optimizer", "Adam"}};
  Identity id{"contiguous", "step", "libtorch", "flat", "cpu", "float32", "", "", 1000, 256, 0, 2, axes};
  const std::string case_id = "contiguous step libtorch -> flat -> cpu float32 1k×256 cores=2";
  EXPECT_EQ(format_case(id, axes), case_id);
  EXPECT_EQ(parse_case(case_id, axes, CaseKind::works), id);
  id.axes = {{"clip", 0.1}, {"optimizer", "SGD"}};
  EXPECT_EQ(format_case(id, axes), case_id + " clip=0.1 optimizer=SGD");
  EXPECT_EQ(parse_case(case_id + " optimizer=SGD clip=0.1", axes, CaseKind::works), id);
  for (const std::string& wrong :
       {case_id + " batch 5", case_id + " unique", case_id.substr(0, case_id.size() - 8)}) {
    EXPECT_THAT(
        message_of<UsageError>([&] { parse_case(wrong, axes, CaseKind::works); }),
        HasSubstr("right: contiguous step libtorch -> contiguous -> cpu float32 1k×1k cores=2 optimizer=SGD"))
        << wrong;
  }
}

TEST(CaseId, ParserTakesXAndBlanks) {
  for (const char* typed :
       {"transfer to pinned -> speedtorch -> cuda:0 float32 10Mx128 batch 131072 unique int64 cores=2",
        "  transfer  to\tpinned->speedtorch->cuda:0 float32 10000k×128 batch 128Ki unique int64   cores=2\n",
        "cores=2 transfer to pinned -> speedtorch -> cuda:0 float32 10000000x128 batch 131072 unique int64",
        "transfer cache=warm to pinned -> speedtorch -> cuda:0 float32 10Mx128 batch 131072 cores=2 unique "
        "int64"}) {
    EXPECT_EQ(parse_case(typed, kTransferAxes), example()) << typed;
  }
}

TEST(CaseId, ParserTakesKeysInAnyOrder) {
  Identity id = example();
  id.axes[0].second = "cold";
  id.axes[3].second = "avx2";
  EXPECT_EQ(
      parse_case("isa=avx2 transfer to pinned -> speedtorch -> cuda:0 float32 10M×128 batch 131072 unique "
                 "int64 cache=cold cores=2",
                 kTransferAxes),
      id);
}

TEST(CaseId, ParserTakesBytesZipfAndTraces) {
  Identity id = example();
  id.dtype = "bytes";
  for (const char* distribution :
       {"zipf:1.05", "file:trace.txt@0123abcd", "file:a=b.npy", "file:my trace.txt"}) {
    id.distribution = distribution;
    EXPECT_EQ(parse_case(format_case(id, kTransferAxes), kTransferAxes), id) << distribution;
  }
}

TEST(CaseId, ParserReadsAnAxisWithoutDefaultByItsLooks) {
  const AxisDefaults unknown{{"a", {}}, {"b", {}}, {"c", {}}, {"d", {}}};
  const Identity id = parse_case(std::string(kExample) + " a=3 b=0.5 c=left", unknown);
  EXPECT_EQ(id.axes[0].second, Value(std::int64_t{3}));
  EXPECT_EQ(id.axes[1].second, Value(0.5));
  EXPECT_EQ(id.axes[2].second, Value("left"));
  EXPECT_EQ(id.axes[3].second, Value());
}

/// `isa="5"` was written as `isa=5`, which is a number.
TEST(CaseId, AxisWithoutDefaultKeepsTheTypeOfItsValue) {
  const AxisDefaults unknown{{"a", {}}};
  Identity id = parse_case(kExample, unknown);
  for (const Value& value : {Value("5"), Value("5.0"), Value("1e3"), Value(5.0), Value(1e300), Value(-2.5),
                             Value(std::int64_t{4000}), Value("4k"), Value("nan"), Value("")}) {
    id.axes[0].second = value;
    const auto case_id = format_case(id, unknown);
    EXPECT_EQ(parse_case(case_id, unknown), id) << case_id;
  }
}

/// `clip=nan` is how the fuzzer of case IDs began.
TEST(CaseId, ParserRejectsNumbersThatAreNotFinite) {
  const AxisDefaults axes{{"clip", 0.0}};
  for (const std::string text : {"nan", "inf", "-inf", "1e999"}) {
    EXPECT_THAT(message_of([&] { parse_case(std::string(kExample) + " clip=" + text, axes); }),
                HasSubstr("'" + text + "' of 'clip=" + text + "' is no number"));
  }
}

std::string random_text(std::mt19937_64& engine) {
  static const std::vector<std::string> pieces{"a",  "z_9", "=",  "->", " ", "\"", "\\", "×", "x", "\t",
                                               "\n", ":",   "12", "-",  ">", "k",  "é",  ".", "%", "cores="};
  std::string text;
  for (auto left = engine() % 6; left > 0; --left) text += pieces[engine() % pieces.size()];
  return text;
}

std::int64_t random_count(std::mt19937_64& engine) {
  const auto count = static_cast<std::int64_t>(engine() >> 1 >> (engine() % 62));
  return std::max<std::int64_t>(1, engine() % 2 == 0 ? count : count / 1'000'000 * 1000);
}

TEST(CaseId, EveryCaseIdRoundTrips) {
  std::mt19937_64 engine(7);
  const AxisDefaults defaults{{"text", "t"}, {"count", std::int64_t{1}}, {"real", 0.5}};
  for (int i = 0; i < 20'000; ++i) {
    const auto text = [&] { return random_text(engine); };
    const auto count = [&] { return random_count(engine); };
    Identity id{text(), text(),  text(),  text(),  text(),  text(), text(),
                text(), count(), count(), count(), count(), {}};
    id.axes = defaults;
    if (engine() % 2 == 0) id.axes[0].second = text();
    if (engine() % 2 == 0) id.axes[1].second = count();
    if (engine() % 2 == 0) id.axes[2].second = static_cast<double>(engine()) / 3e7;
    if (engine() % 4 == 0) id.axes[engine() % 3].second = Value();
    const std::string case_id = format_case(id, defaults);
    ASSERT_EQ(parse_case(case_id, defaults), id) << case_id;
  }
}

TEST(CaseId, ParserThrowsUsageErrorsOnly) {
  std::mt19937_64 engine(11);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string case_id = kExample;
    for (auto left = 1 + engine() % 4; left > 0; --left) {
      const std::size_t at = engine() % case_id.size();
      if (engine() % 2 == 0) case_id.erase(at, 1 + engine() % 8);
      if (engine() % 2 == 0) case_id.insert(std::min(at, case_id.size()), random_text(engine));
      if (case_id.empty()) case_id = "-";
    }
    try {
      parse_case(case_id, kTransferAxes);
    } catch (const UsageError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10'000);
}

struct Bad {
  const char* case_id;
  const char* named;  ///< what the message must name
};

class BadCaseId : public testing::TestWithParam<Bad> {};

TEST_P(BadCaseId, ErrorNamesTheWordThatDoesNotFit) {
  const std::string message = message_of([] { parse_case(GetParam().case_id, kTransferAxes); });
  EXPECT_THAT(message, AllOf(HasSubstr("--case"), HasSubstr(GetParam().named)));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadCaseId,
    testing::Values(
        Bad{"", "the suite is missing"}, Bad{"transfer", "the direction is missing"},
        Bad{"transfer to pinned -> ", "the method is missing"},
        Bad{"transfer to pinned speedtorch -> cuda:0", "'speedtorch' stands where '->' is expected"},
        Bad{"transfer to -> speedtorch", "'->' stands where the placement is expected"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 10M batch 1 unique int64 cores=2",
            "'10M' stands where"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 10Mx chunk 1 unique int64 cores=2", "dim"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 0x128 batch 1 unique int64 cores=2", "rows is 0"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 9x128 chunk 1 unique int64 cores=2",
            "'chunk' stands where 'batch'"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 9x128 batch many unique int64 cores=2", "'many'"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 9x128 batch 1K unique int64 cores=2", "'1K'"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 9x128 batch 1 unique int64 extra cores=2",
            "'extra' is one word too many"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 9x128 batch 1 unique int64", "cores=N is missing"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 9x128 batch 1 unique int64 cores=0", "cores is 0"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 9x128 batch 1 unique int64 cores=two", "'two'"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 9x128 batch 1 unique int64 cores=2 cores=3",
            "'cores=' stands twice"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 9x128 batch 1 unique int64 cores=2 cahce=cold",
            "did you mean 'cache'?"},
        Bad{"transfer to pinned -> a -> cuda:0 float32 9x128 batch 1 unique int64 cores=2 callers=x", "'x'"},
        Bad{"transfer to \"pinned -> a", "quote"}));

TEST(CaseId, ErrorShowsTheRightForm) {
  EXPECT_THAT(message_of([] { parse_case("transfer", kTransferAxes); }),
              HasSubstr(std::string("right: ") + kExample));
}

}  // namespace
}  // namespace stbench::harness

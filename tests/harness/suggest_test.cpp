#include "harness/suggest.h"

#include <gmock/gmock.h>

#include "tests/harness/message_of.h"

namespace stbench::harness {
namespace {

using stbench::test::message_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const std::vector<std::string> kPlacements{"libtorch", "pageable", "hugepage", "mapped", "pinned", "device"};

struct Slip {
  const char* given;
  const char* meant;
};

class Suggested : public testing::TestWithParam<Slip> {};

TEST_P(Suggested, IsTheNameThatWasMeant) {
  EXPECT_EQ(did_you_mean(GetParam().given, kPlacements),
            std::string("; did you mean '") + GetParam().meant + "'?");
}

INSTANTIATE_TEST_SUITE_P(Table, Suggested,
                         testing::Values(Slip{"hugpage", "hugepage"}, Slip{"hugepages", "hugepage"},
                                         Slip{"hugepgae", "hugepage"}, Slip{"HugePage", "hugepage"},
                                         Slip{"pined", "pinned"}, Slip{"pagable", "pageable"},
                                         Slip{"huge", "hugepage"}, Slip{"dev", "device"},
                                         Slip{"libtroch", "libtorch"}, Slip{"maped", "mapped"},
                                         Slip{"amppde", "mapped"}));

class NotSuggested : public testing::TestWithParam<const char*> {};

TEST_P(NotSuggested, NoNameIsNear) { EXPECT_EQ(did_you_mean(GetParam(), kPlacements), ""); }

INSTANTIATE_TEST_SUITE_P(Table, NotSuggested,
                         testing::Values("", "gpu", "p", "xyz", "cache", "unified", "pinnacles"));

TEST(DidYouMean, CountsASwapOfNeighboursAsOneSlip) {
  const std::vector<std::string> known{"abcd"};
  EXPECT_EQ(did_you_mean("abdc", known), "; did you mean 'abcd'?");
  EXPECT_EQ(did_you_mean("adcb", known), "");
}

TEST(SplitList, KeepsItemsAsTheyStand) {
  EXPECT_THAT(split_list("a, b,c", "--x"), ElementsAre("a", " b", "c"));
}

TEST(ParseNames, KeepsEachNameOnce) {
  EXPECT_THAT(parse_names("pinned,device,pinned", "--placement", kPlacements),
              ElementsAre("pinned", "device"));
}

TEST(ParseNames, NamesWhatIsWrongAndWhatIsKnown) {
  EXPECT_EQ(message_of([] { parse_names("pinned,hugpage", "--placement", kPlacements); }),
            "--placement: 'hugpage' is not known; did you mean 'hugepage'?\n"
            "known: libtorch, pageable, hugepage, mapped, pinned, device");
  EXPECT_EQ(message_of([] { parse_names("gpu", "--placement", kPlacements); }),
            "--placement: 'gpu' is not known\nknown: libtorch, pageable, hugepage, mapped, pinned, device");
}

TEST(ParseNames, KeepsWhatIsWrongOnOneLine) {
  EXPECT_THAT(message_of([] { parse_names("a\nb", "--placement", kPlacements); }),
              StartsWith("--placement: 'a b' is not known\n"));
  EXPECT_EQ(message_of([] { parse_names("a\nb,", "--placement", kPlacements); }),
            "--placement: 'a b,' has an empty item; separate items by one comma");
}

TEST(ParseNames, RefusesEmptyItems) {
  EXPECT_THAT(message_of([] { parse_names("", "--placement", kPlacements); }), HasSubstr("--placement"));
  for (const char* text : {",", "pinned,", ",pinned", "pinned,,device"}) {
    EXPECT_THAT(message_of([&] { parse_names(text, "--placement", kPlacements); }),
                AllOf(HasSubstr("--placement"), HasSubstr("empty item")));
  }
}

}  // namespace
}  // namespace stbench::harness

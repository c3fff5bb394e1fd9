#include "harness/pattern.h"

#include <gmock/gmock.h>

#include "harness/errors.h"
#include "tests/harness/message_of.h"

namespace stbench::harness {
namespace {

using test::message_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Le;
using testing::SizeIs;

std::string refused(const std::string& expression) {
  return message_of<UsageError>([&] { const Pattern pattern(expression, "--filter"); });
}

TEST(Pattern, IsFoundAnywhereInAText) {
  EXPECT_TRUE(Pattern("page", "--filter").is_in("to hugepage"));
  EXPECT_FALSE(Pattern("^page", "--filter").is_in("to hugepage"));
  EXPECT_TRUE(Pattern("copy.* 1k×|slow.* 2k×", "--filter").is_in("slow -> cpu float32 2k×128"));
  EXPECT_TRUE(Pattern("", "--filter").is_in("anything"));
}

TEST(Pattern, NamesOptionExpressionAndFault) {
  EXPECT_THAT(refused("("), AllOf(HasSubstr("--filter '('"), HasSubstr("missing )"), HasSubstr("RE2")));
  EXPECT_THAT(refused("a**"), AllOf(HasSubstr("'a**'"), HasSubstr("bad repetition operator")));
  EXPECT_THAT(refused("(a)\\1"), AllOf(HasSubstr("'(a)\\1'"), HasSubstr("invalid escape sequence: \\1")));
  EXPECT_THAT(refused("\xff"), HasSubstr("invalid UTF-8"));
}

TEST(Pattern, AcceptsOrBrieflyRefusesAnyLength) {
  constexpr std::size_t kMany = 120'000;
  EXPECT_FALSE(Pattern(std::string(kMany, 'a'), "--filter").is_in("a"));
  EXPECT_TRUE(Pattern(std::string(kMany, '|'), "--filter").is_in("a"));
  EXPECT_FALSE(Pattern(std::string(20'000, '(') + "b" + std::string(20'000, ')'), "--filter").is_in("a"));
  for (const auto& expression : {std::string(20'000, '('), std::string("(a{1000}){1000}")})
    EXPECT_THAT(refused(expression), AllOf(HasSubstr("is no regular expression"), SizeIs(Le(300U))));
}

/// A search that goes back and tries again takes longer than the universe for this.
TEST(Pattern, NeedsNoTimeBeyondTheTexts) {
  EXPECT_FALSE(Pattern("(.*)*(.*)*zzz", "--filter").is_in(std::string(10'000, 'z' - 1)));
  EXPECT_FALSE(Pattern("(a*)*b", "--filter").is_in(std::string(100'000, 'a')));
}

}  // namespace
}  // namespace stbench::harness

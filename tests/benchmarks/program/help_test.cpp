#include "benchmarks/program/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "benchmarks/program/option_table.h"
#include "benchmarks/suite/suite.h"

namespace stbench {
namespace {

TEST(Help, NamesEveryPeer) {
  const auto text = long_help_text();
  const auto begin = text.find("--peers LIST"), end = text.find("--device LIST");
  ASSERT_LT(begin, end);
  ASSERT_NE(end, std::string::npos);
  const auto peers = text.substr(begin, end - begin);
  const auto names = method_names(true);
  ASSERT_GT(names.size(), 4U);
  for (const auto& name : names) EXPECT_THAT(peers, testing::ContainsRegex("\\b" + name + "\\b"));
}

TEST(Help, HasOnlyTextsOfOptionsThatThereAre) {
  std::istringstream lines(help_texts);
  std::size_t texts = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# --")) continue;
    const auto spec = std::ranges::find(option_table(), line.substr(2), &OptionSpec::name);
    ASSERT_NE(spec, option_table().end()) << line;
    EXPECT_FALSE(text_of_more(*spec).empty()) << line;
    ++texts;
  }
  EXPECT_GT(texts, 15U);
}

/// Words with one space between them, wherever lines end.
std::string unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string all;
  for (std::string word; words >> word;) all += word + " ";
  return all;
}

TEST(Help, NamesEveryOptionSuiteAndPreset) {
  const auto text = unwrapped(long_help_text());
  for (const auto& spec : option_table()) EXPECT_THAT(text, testing::HasSubstr(spec.name));
  for (const auto& suite : suites()) {
    EXPECT_THAT(text, testing::HasSubstr(suite.name + ": " + suite.summary));
    for (const auto& preset : suite.presets) EXPECT_THAT(text, testing::HasSubstr(preset.name));
  }
}

}  // namespace
}  // namespace stbench

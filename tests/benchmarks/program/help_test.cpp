#include "benchmarks/program/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "benchmarks/program/command_line.h"
#include "benchmarks/program/option_table.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

TEST(Help, NamesEveryPeer) {
  const auto text = long_help_text();
  const auto begin = text.find("--peers LIST"), end = text.find("--device LIST");
  ASSERT_LT(begin, end);
  ASSERT_NE(end, std::string::npos);
  const auto peers = text.substr(begin, end - begin);
  ASSERT_GT(peer_names().size(), 4U);
  for (const auto& name : peer_names()) EXPECT_THAT(peers, testing::ContainsRegex("\\b" + name + "\\b"));
}

std::vector<Option> options_with_values() {
  std::vector<Option> options;
  for (const auto& section : option_table()) {
    for (const auto& option : section.options) {
      if (!option.values.empty()) options.push_back(option);
    }
  }
  return options;
}

TEST(OptionTable, HasOnlyValuesThatTheOptionTakes) {
  ASSERT_GT(options_with_values().size(), 10U);
  for (const auto& option : options_with_values()) {
    for (const auto& value : option.values) {
      std::vector<std::string> words{option.name, value, "--baseline", "kept"};  // which --across goes with
      if (option.name != "--suite")
        words.insert(words.begin(), {"--suite", "transfer,contiguous,infinitybatch"});
      EXPECT_NO_THROW(parse_command_line(words)) << option.name << " " << value;
    }
  }
}

TEST(OptionTable, SplitsOptionsOfTheSameKind) {
  std::map<std::string, std::string> value_of;
  for (const auto& section : option_table()) {
    for (const auto& option : section.options) value_of[option.name] = option.value;
  }
  EXPECT_EQ(value_of["--csv"], "FILE");
  EXPECT_EQ(value_of["--json"], "FILE");
  EXPECT_EQ(value_of["--samples"], "N");
  EXPECT_EQ(value_of["--warmup"], "N");
  EXPECT_EQ(value_of["--rows"], "LIST");
  EXPECT_EQ(value_of["--dry-run"], "");
  EXPECT_EQ(value_of["--benchmark_out"], "FILE");
}

}  // namespace
}  // namespace stbench

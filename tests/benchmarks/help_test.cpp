#include "benchmarks/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "benchmarks/method.h"

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

}  // namespace
}  // namespace stbench

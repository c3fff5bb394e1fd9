#include "benchmarks/peer_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

namespace stbench {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double limit_s = 20;

/// A peer of few lines; `$0` is a file that is not there.
PeerProcess peer(const std::string& script, const std::string& file = "sh") {
  return {{"sh", "-c", "echo 'hello {\"protocol\": 1}'; " + script, file}, limit_s};
}

/// The other process gets so far in its own time.
void wait_for(const std::filesystem::path& file) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  while (!std::filesystem::exists(file) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(std::filesystem::exists(file));
}

TEST(PeerProcess, EachRequestGetsItsAnswer) {
  auto cat = peer("exec cat");
  for (const char* text : {"1", "2 3", ""}) EXPECT_EQ(cat.ask(std::string("echo ") + text, "echo"), text);
}

TEST(PeerProcess, AnswersBehindTheAnswerAreRefusedAtOnce) {
  auto twice = peer("read x; printf 'ok 1\\nok 2\\n'; read x");
  EXPECT_THAT([&] { twice.ask("a", "ok"); },
              ThrowsMessage<PeerError>(HasSubstr("it said more than it was asked")));
  EXPECT_FALSE(twice.alive());
}

TEST(PeerProcess, LinesBetweenTheRequestsAreNotTakenForTheNextAnswer) {
  const auto said = std::filesystem::temp_directory_path() / ("said " + std::to_string(::getpid()));
  std::filesystem::remove(said);
  auto late = peer("read x; echo ok 1; read x; echo ok 2; : > \"$0\"; read x; echo ok 3", said);
  EXPECT_EQ(late.ask("a\nb", "ok"), "1");  // the second line asks for nothing
  wait_for(said);
  std::filesystem::remove(said);
  EXPECT_THAT([&] { late.ask("c", "ok"); },
              ThrowsMessage<PeerError>(HasSubstr("it said more than it was asked")));
  EXPECT_FALSE(late.alive());
}

TEST(PeerProcess, EndBetweenTheRequestsIsToldAsSuch) {
  auto short_lived = peer("read x; echo ok; echo of old age >&2; exit 3");
  EXPECT_EQ(short_lived.ask("a", "ok"), "");
  EXPECT_THAT([&] { short_lived.ask("b", "ok"); },
              ThrowsMessage<PeerError>(HasSubstr("ended with exit status 3: of old age")));
}

}  // namespace
}  // namespace stbench

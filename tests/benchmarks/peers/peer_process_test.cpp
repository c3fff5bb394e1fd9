#include "benchmarks/peers/peer_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace stbench {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double limit_s = 20;

/// A peer of few lines, whose `$0` is the file.
PeerProcess peer(const std::string& script, const std::string& file = "sh") {
  return {{"sh", "-c", "echo 'hello {\"protocol\": 1}'; " + script, file}, PeerTerms{.limit_s = limit_s}};
}

/// The other process gets so far in its own time.
void wait_until_gone(const std::filesystem::path& file) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  while (std::filesystem::exists(file) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_FALSE(std::filesystem::exists(file));
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
  const auto go = std::filesystem::temp_directory_path() / ("go " + std::to_string(::getpid()));
  std::filesystem::remove(go);
  auto late =
      peer(R"(read x; echo ok 1; until [ -e "$0" ]; do sleep 0.01; done; echo ok 2; rm "$0"; read x)", go);
  EXPECT_EQ(late.ask("a", "ok"), "1");
  std::ofstream(go).put('!');  // only now, so that the second line cannot come with the first
  wait_until_gone(go);
  EXPECT_THAT([&] { late.ask("b", "ok"); },
              ThrowsMessage<PeerError>(HasSubstr("it said more than it was asked")));
  EXPECT_FALSE(late.alive());
}

TEST(PeerProcess, ErrorsHaveTheNameAndTheLimitOfItsTerms) {
  const PeerTerms terms{.limit_s = 0.2, .limit_words = "its limit", .who = "the child"};
  PeerProcess silent({"sh", "-c", "echo 'hello {\"protocol\": 1}'; exec sleep 20"}, terms);
  EXPECT_THAT(
      [&] { silent.ask("a", "ok"); },
      ThrowsMessage<PeerError>(HasSubstr("the child was ended: it gave no answer within 0.2 s, its limit")));
}

TEST(PeerProcess, IsEndedWhileItIsWaitedForWhenTheRunStops) {
  std::atomic<bool> interrupted = false;
  const PeerTerms terms{.limit_s = limit_s, .stop = [&] { return interrupted.load(); }};
  PeerProcess silent({"sh", "-c", "echo 'hello {\"protocol\": 1}'; exec sleep 20"}, terms);
  std::thread later([&] { interrupted = true; });
  EXPECT_THAT([&] { silent.ask("a", "ok"); },
              ThrowsMessage<PeerError>(HasSubstr("was ended: the run was interrupted")));
  later.join();
  EXPECT_FALSE(silent.alive());
}

TEST(PeerProcess, EndBetweenTheRequestsIsToldAsSuch) {
  auto short_lived = peer("read x; echo ok; echo of old age >&2; exit 3");
  EXPECT_EQ(short_lived.ask("a", "ok"), "");
  EXPECT_THAT([&] { short_lived.ask("b", "ok"); },
              ThrowsMessage<PeerError>(HasSubstr("ended with exit status 3: of old age")));
}

}  // namespace
}  // namespace stbench

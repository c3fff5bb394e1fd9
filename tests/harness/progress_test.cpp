#include "harness/progress.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace stbench::harness {
namespace {

/// A progress display on a file, with a clock that the test sets.
class ProgressTest : public testing::Test {
 protected:
  Progress& start(bool in_place, int columns = 80) {
    progress_.emplace(Progress::Target{file_.get(), in_place, columns, [this] { return now_; }});
    return *progress_;
  }

  std::string written() {
    std::fflush(file_.get());
    std::rewind(file_.get());
    std::string text;
    for (int c = std::fgetc(file_.get()); c != EOF; c = std::fgetc(file_.get())) text += static_cast<char>(c);
    return text;
  }

  double now_ = 100;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{std::tmpfile(), std::fclose};
  std::optional<Progress> progress_;
};

TEST_F(ProgressTest, IsQuietForTwoSeconds) {
  Progress& progress = start(true);
  for (double t : {100.0, 101.0, 101.9}) {
    now_ = t;
    progress.step("case", 0.5);
  }
  progress.clear();
  EXPECT_EQ(written(), "");
}

TEST_F(ProgressTest, IsWrittenOverOnATerminal) {
  Progress& progress = start(true);
  now_ = 104;
  progress.step("one", 0.25);
  now_ = 104.05;
  progress.step("too soon", 0.3);
  now_ = 108;
  progress.step("two", 0.5);
  progress.clear();
  progress.clear();
  EXPECT_EQ(written(), "\r\x1b[K[ 25 %] about 12 s left: one\r\x1b[K[ 50 %] about 8 s left: two\r\x1b[K");
}

TEST_F(ProgressTest, SilenceTakesTheLineAwayAndPrintsNoMore) {
  Progress& progress = start(true);
  now_ = 104;
  progress.step("one", 0.25);
  progress.silence();
  now_ = 108;
  progress.step("two", 0.5);
  progress.note("three");
  EXPECT_EQ(written(), "\r\x1b[K[ 25 %] about 12 s left: one\r\x1b[K");
}

TEST_F(ProgressTest, IsALineEveryTenSecondsElsewhere) {
  Progress& progress = start(false);
  for (int second = 1; second <= 25; ++second) {
    now_ = 100 + second;
    progress.step("case", second / 50.0);
  }
  progress.clear();
  EXPECT_EQ(written(),
            "[  4 %] case\n"
            "[ 24 %] about 38 s left: case\n"
            "[ 44 %] about 28 s left: case\n");
}

TEST_F(ProgressTest, TrustsThePlanAtFirst) {
  Progress& progress = start(false);
  progress.set_total(120);
  now_ = 110;
  progress.step("early", 0.01);
  now_ = 250;
  progress.step("late", 0.02);
  EXPECT_EQ(written(), "[  1 %] about 1 min 50 s left: early\n[  2 %] late\n");
}

TEST_F(ProgressTest, PutsNotesAboveTheLine) {
  Progress& progress = start(true);
  progress.note("before");
  now_ = 110;
  progress.step("one", 0.5);
  progress.note("a message\n");
  progress.clear();
  progress.note("after");
  EXPECT_EQ(written(),
            "before\n\r\x1b[K[ 50 %] about 10 s left: one\r\x1b[Ka message\n[ 50 %] about 10 s left: "
            "one\r\x1b[Kafter\n");
}

TEST_F(ProgressTest, IsCutToTheTerminalWithoutBreakingACharacter) {
  Progress& progress = start(true, 12);
  now_ = 110;
  progress.step("××××××××", 0);
  EXPECT_EQ(written(), "\r\x1b[K[  0 %] ×××");
}

TEST_F(ProgressTest, ClearsItselfAtTheEnd) {
  start(true);
  now_ = 110;
  progress_->step("x", 0);
  progress_.reset();
  EXPECT_EQ(written(), "\r\x1b[K[  0 %] x\r\x1b[K");
}

TEST_F(ProgressTest, TakesFractionsOutOfRange) {
  Progress& progress = start(false);
  now_ = 110;
  progress.step("x", 1.5);
  now_ = 130;
  progress.step("x", -1);
  EXPECT_EQ(written(), "[100 %] about 0 s left: x\n[  0 %] x\n");
}

TEST_F(ProgressTest, MayBeUsedFromThreads) {
  Progress& progress = start(false);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        progress.note("note");
        progress.step("x", 0.5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string expected;
  for (int i = 0; i < 400; ++i) expected += "note\n";
  EXPECT_EQ(written(), expected);
}

TEST(HumanTime, IsAsPeopleSayIt) {
  EXPECT_EQ(human_time(0.4), "0 s");
  EXPECT_EQ(human_time(-5), "0 s");
  EXPECT_EQ(human_time(59.4), "59 s");
  EXPECT_EQ(human_time(59.6), "1 min 0 s");
  EXPECT_EQ(human_time(80), "1 min 20 s");
  EXPECT_EQ(human_time(7500), "2 h 5 min");
}

}  // namespace
}  // namespace stbench::harness

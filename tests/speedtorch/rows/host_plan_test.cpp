// Plans as text, where the plan in use comes from, and what tuning makes of it.

#include "speedtorch/rows/host_plan.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "speedtorch/error.h"
#include "speedtorch/rows/plan_text.h"
#include "speedtorch/rows/tune.h"
#include "tests/harness/message_of.h"
#include "tests/harness/temporary_folder.h"

namespace speedtorch {
namespace {

using kernels::PrefetchTo;
using kernels::ProcessorFamily;
using kernels::Stores;
using stbench::test::message_of;
using stbench::test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Has a value, or none, while it lives.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~EnvironmentVariable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  EnvironmentVariable(const EnvironmentVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// A plan that no processor has by default.
Plan unusual_plan() {
  auto plan = kernels::default_plan(ProcessorFamily::other, 32 << 20);
  plan.thread_bytes = 12345;
  plan.copy_huge_pages = kernels::CopyWay::pages;
  plan.scatter.large_from = 54321;
  plan.gather.cut_lines[3] = {Stores::staged, PrefetchTo::l2, 77, 4};
  return plan;
}

/// What parsing a plan's text says where one of its lines is replaced by another.
std::string refusal(const std::string& line, const std::string& by) {
  auto text = to_text(plan_entries(unusual_plan()));
  const auto at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  text.replace(at, line.size(), by);
  return message_of<RowPlanError>([&] { plan_of(parse_entries(text, "the text")); });
}

TEST(PlanText, ReadsWhatItWrote) {
  for (const auto& plan : {unusual_plan(), kernels::default_plan(ProcessorFamily::intel, 480 << 20)}) {
    const auto text = to_text(plan_entries(plan));
    EXPECT_EQ(plan_of(parse_entries(text, "the text")), plan) << text;
    EXPECT_EQ(plan_of(parse_entries("# a remark\r\n\n  " + text, "the text")), plan);
  }
  EXPECT_THAT(to_text(plan_entries(unusual_plan())), HasSubstr("\ngather.cut_lines.192: staged l2 77 4\n"));
}

TEST(PlanText, ErrorsNameTheKeyAndTheValue) {
  EXPECT_EQ(refusal("thread_bytes: 12345\n", ""), "'thread_bytes' is missing");
  EXPECT_EQ(refusal("thread_bytes: 12345\n", "thread_bytes: 1\nthread_bytes: 2\n"),
            "'thread_bytes' is given twice");
  EXPECT_EQ(refusal("thread_bytes: 12345\n", "thread_bytes: 12345\nspeed: 9\n"),
            "'speed' is no part of a plan");
  EXPECT_EQ(refusal("thread_bytes: 12345", "thread_bytes 12345"),
            "the text, line 1: 'thread_bytes 12345' is not of the form 'key: value'");
  for (const char* value : {"", "12x", "1e5", "99999999999999999999"})
    EXPECT_EQ(refusal("thread_bytes: 12345", std::string("thread_bytes: ") + value),
              std::string("'thread_bytes' cannot be '") + value + "'");
  for (const char* value : {"staged l2 77", "staged l2 77 4 1 1", "staged l2 77 4 x", "fast l2 77 4",
                            "staged l3 77 4", "staged l2 x 4"})
    EXPECT_EQ(refusal("staged l2 77 4", value),
              std::string("'gather.cut_lines.192' cannot be '") + value + "'");
}

TEST(PlanText, NumbersOutOfRangeAreRefused) {
  EXPECT_THAT(refusal("thread_bytes: 12345", "thread_bytes: 0"), HasSubstr("thread_bytes"));
  EXPECT_THAT(refusal("staged l2 77 4", "staged l2 0 4"), HasSubstr("lines_ahead"));
  EXPECT_THAT(refusal("staged l2 77 4", "staged l2 77 17"), HasSubstr("line_step"));
  EXPECT_THAT(refusal("staged l2 77 4", "staged l2 77 4 17"), HasSubstr("touch"));
  EXPECT_THAT(refusal("staged l2 77 4", "staged l2 77 4 -1"), HasSubstr("touch"));
}

/// With a cache folder of its own and no plan named.
struct HostPlanTest : testing::Test {
  ~HostPlanTest() override { use_default_plan(); }

  void store(const Plan& plan) const {
    std::filesystem::create_directories(std::filesystem::path(stored_plan_path()).parent_path());
    write_plan(stored_plan_path(), plan);
  }
  void change_stored(const std::string& text, const std::string& by) const {
    auto content = stbench::test::content_of(stored_plan_path());
    const auto at = content.find(text);
    ASSERT_NE(at, std::string::npos) << content;
    std::ofstream(stored_plan_path()) << content.replace(at, text.size(), by);
  }

  TemporaryFolder folder_;
  EnvironmentVariable cache_{"XDG_CACHE_HOME", folder_.path().string()};
  EnvironmentVariable named_{"SPEEDTORCH_PLAN", ""};
};

TEST_F(HostPlanTest, WithoutAnyItIsTheDefault) { EXPECT_EQ(first_host_plan(), kernels::default_plan()); }

TEST_F(HostPlanTest, AStoredPlanIsTaken) {
  store(unusual_plan());
  EXPECT_EQ(first_host_plan(), unusual_plan());
}

TEST_F(HostPlanTest, StoresPlansInTheUsersCacheFolder) {
  EXPECT_THAT(stored_plan_path(), StartsWith(folder_.path().string() + "/speedtorch/plan-"));
  const EnvironmentVariable home("HOME", "/home/somebody");
  const EnvironmentVariable none("XDG_CACHE_HOME", "");
  EXPECT_THAT(stored_plan_path(), StartsWith("/home/somebody/.cache/speedtorch/plan-"));
  const EnvironmentVariable nowhere("HOME", "");
  EXPECT_EQ(stored_plan_path(), "");
  EXPECT_EQ(first_host_plan(), kernels::default_plan());
}

TEST_F(HostPlanTest, AnotherMachinesPlanIsNotTaken) {
  store(unusual_plan());
  change_stored("cores: ", "cores: 9");
  EXPECT_EQ(first_host_plan(), kernels::default_plan());
  store(unusual_plan());
  EXPECT_EQ(first_host_plan(), unusual_plan());
  change_stored("processor: ", "processor: another name and design, ");
  EXPECT_EQ(first_host_plan(), kernels::default_plan());
}

TEST_F(HostPlanTest, ADamagedStoredPlanIsNotTaken) {
  store(unusual_plan());
  change_stored("thread_bytes: 12345", "thread_bytes: ");
  EXPECT_EQ(first_host_plan(), kernels::default_plan());
  ASSERT_EQ(::unlink(stored_plan_path().c_str()), 0);
  ASSERT_EQ(::mkfifo(stored_plan_path().c_str(), 0600), 0);
  EXPECT_EQ(first_host_plan(), kernels::default_plan());
}

TEST_F(HostPlanTest, TheEnvironmentComesBeforeWhatIsStored) {
  store(unusual_plan());
  {
    const EnvironmentVariable fixed("SPEEDTORCH_PLAN", "fixed");
    EXPECT_EQ(first_host_plan(), kernels::default_plan());
  }
  auto another = unusual_plan();
  another.thread_bytes = 777;
  const auto path = (folder_.path() / "another.plan").string();
  write_plan(path, another);
  const EnvironmentVariable file("SPEEDTORCH_PLAN", path);
  EXPECT_EQ(first_host_plan(), another);
}

TEST_F(HostPlanTest, ABadFileThatWasNamedIsAnErrorThatNamesIt) {
  const auto path = (folder_.path() / "mine.plan").string();
  const EnvironmentVariable file("SPEEDTORCH_PLAN", path);
  EXPECT_EQ(message_of<RowPlanError>([] { first_host_plan(); }),
            "the plan 'mine.plan' cannot be read: No such file or directory");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(message_of<RowPlanError>([] { first_host_plan(); }),
            "the plan 'mine.plan' is not a regular file and cannot be read");
  ASSERT_EQ(::unlink(path.c_str()), 0);
  std::ofstream(path) << "thread_bytes: 1\n";
  EXPECT_EQ(message_of<RowPlanError>([] { first_host_plan(); }),
            "the plan 'mine.plan': 'copy.small_pages' is missing");
  std::ofstream(path) << "thread_bytes\n";
  EXPECT_THAT(message_of<RowPlanError>([] { first_host_plan(); }),
              StartsWith("the plan 'mine.plan', line 1: "));
}

TEST_F(HostPlanTest, AProgramChoosesItsOwn) {
  use_host_plan(unusual_plan());
  EXPECT_EQ(host_plan().plan, unusual_plan());
  EXPECT_EQ(host_plan().origin, "the program's");
  use_default_plan();
  EXPECT_EQ(host_plan().plan, kernels::default_plan());
  EXPECT_EQ(host_plan().origin, "defaults");
}

TEST_F(HostPlanTest, TuningIsUsedAndStored) {
  auto tuning = tune({.seconds = 3});
  for (const double seconds : {12, 48})  // a slow machine measures nothing in the first
    if (tuning.choices.empty()) tuning = tune({.seconds = seconds});
  EXPECT_EQ(host_plan().plan, tuning.plan);
  EXPECT_EQ(host_plan().origin, "tuned");
  EXPECT_EQ(tuning.stored, stored_plan_path()) << tuning.not_stored;
  EXPECT_EQ(first_host_plan(), tuning.plan);
  ASSERT_FALSE(tuning.choices.empty());
  for (const auto& choice : tuning.choices) {
    EXPECT_GT(choice.chosen_s, 0);
    EXPECT_LE(choice.chosen_s, choice.standard_s) << "worse than the default is not taken";
    const auto& of = tuning.plan.of(choice.direction);
    const auto& kept = choice.kind == "small"         ? of.small
                       : choice.kind == "whole_lines" ? of.whole_lines
                                                      : of.cut_lines;
    EXPECT_EQ(kept[kernels::width_class(choice.row_bytes)], choice.chosen) << choice.kind << choice.row_bytes;
  }
}

/// The choice of threads by made-up times of so many KiB on one and on two threads.
std::optional<std::int64_t> shared_from(const std::function<double(int threads, std::int64_t kib)>& seconds,
                                        int rounds_until_spent = 1000) {
  const auto of_bytes = [&](int threads, std::int64_t bytes) { return seconds(threads, bytes >> 10); };
  int asked = 0;
  const auto spent = [&] { return ++asked > rounds_until_spent; };
  const auto bytes = fewest_bytes_to_share(of_bytes, spent);
  return bytes ? std::optional(*bytes >> 10) : std::nullopt;
}

TEST(FewestBytesToShare, IsTheSmallestSizeAtWhichTwoThreadsAreFaster) {
  // Waking a thread takes as long as moving 100 KiB, so two gain from 200 KiB on.
  const auto waking = [](int threads, std::int64_t kib) {
    return static_cast<double>(threads == 1 ? kib : kib / 2 + 100);
  };
  EXPECT_EQ(shared_from(waking), 256);
  EXPECT_EQ(shared_from([](int threads, std::int64_t) { return threads == 1 ? 2.0 : 1.0; }), 64);
  const auto only_of_1_mib = [](int threads, std::int64_t kib) {
    return threads == 1 ? 1.0 : kib == 1024 ? 0.5 : 0.98;
  };
  EXPECT_EQ(shared_from(only_of_1_mib), 1024) << "2 % faster is not worth a thread";
}

/// Two threads take half the time while the second core is free in a round, else three times as long.
template <class FreeIn>
auto with_a_second_core(FreeIn free_in, int& calls) {
  return [=, &calls](int threads, std::int64_t) {
    const int round = calls++ / 4;
    return threads == 1 ? 1.0 : free_in(round) ? 0.5 : 3.0;
  };
}

TEST(FewestBytesToShare, CountsTheRoundsInWhichTheSecondCoreIsFree) {
  int calls = 0;
  EXPECT_EQ(shared_from(with_a_second_core([](int round) { return round % 3 == 0; }, calls)), 64);
}

TEST(FewestBytesToShare, ChoosesNothingWhileTheSecondCoreIsBusy) {
  int calls = 0;
  EXPECT_EQ(shared_from(with_a_second_core([](int) { return false; }, calls)), std::nullopt);
  calls = 0;
  EXPECT_EQ(shared_from(with_a_second_core([](int round) { return round < 25; }, calls)), std::nullopt)
      << "busy from the third size on";
}

TEST(FewestBytesToShare, IsNotDecidedByAFewLuckyRounds) {
  int calls = 0;
  const auto seconds = [&](int threads, std::int64_t kib) {
    const int round = calls++ / 4;
    if (kib == 1024) return threads == 1 ? 1.0 : 0.5;
    return threads == 1 ? 1.0 : round % 3 == 0 ? 0.5 : 1.2;
  };
  EXPECT_EQ(shared_from(seconds), 1024);
}

TEST(FewestBytesToShare, ChoosesNothingWithoutTime) {
  int calls = 0;
  const auto always = with_a_second_core([](int) { return true; }, calls);
  EXPECT_EQ(shared_from(always, 0), std::nullopt);
  EXPECT_EQ(shared_from(always, 25), std::nullopt) << "two of five sizes";
  EXPECT_EQ(shared_from(always, 55), 64);
}

TEST_F(HostPlanTest, WithoutTimeNothingIsChanged) {
  const auto tuning = tune({.seconds = 0, .store = false});
  EXPECT_FALSE(tuning.complete);
  EXPECT_EQ(tuning.plan, kernels::default_plan());
  EXPECT_EQ(tuning.stored, "");
  EXPECT_FALSE(std::filesystem::exists(stored_plan_path()));
}

TEST_F(HostPlanTest, TuningThatCannotBeStoredSaysWhy) {
  std::ofstream(folder_.path() / "speedtorch") << "a file where the folder should be";
  const auto tuning = tune({.seconds = 0});
  EXPECT_EQ(tuning.stored, "");
  EXPECT_NE(tuning.not_stored, "");
}

}  // namespace
}  // namespace speedtorch

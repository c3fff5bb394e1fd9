#include "harness/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "harness/case_id.h"
#include "harness/span.h"
#include "reports/statistics/statistics.h"

namespace stbench::harness {
namespace {

using reports::Record;
using reports::Status;

/// A clock that stands still but for what the cases say they take.
struct FakeClock {
  double now = 0;
  void advance(double seconds) { now += seconds; }
};

reports::Identity identity(const std::string& method, const std::string& direction = "to") {
  reports::Identity id;
  id.suite = "transfer", id.direction = direction, id.placement = "libtorch", id.method = method,
  id.device = "cpu";
  id.dtype = "float32", id.index_dtype = "int64", id.distribution = "unique";
  id.rows = 10, id.dim = 1, id.batch = 5, id.cores = 1;
  return id;
}

Check good(int) { return {5, 0, {}}; }

class SamplerTest : public testing::Test {
 protected:
  /// A case whose n-th run takes `seconds(n)`.
  BenchmarkCase taking(const std::string& method, std::function<double(int)> seconds,
                       Role role = Role::ours) {
    const auto runs = std::make_shared<int>(0);
    BenchmarkCase one(
        identity(method), role, [this, seconds, runs](int) { clock_.advance(seconds((*runs)++)); }, good);
    one.payload_bytes = 1000;
    return one;
  }

  std::vector<Record> measure_with(std::vector<BenchmarkCase> group) {
    hooks_.now_s = [this] { return clock_.now; };
    return measure(group, rules_, hooks_);
  }

  FakeClock clock_;
  SamplingRules rules_;
  SamplerHooks hooks_;
};

TEST_F(SamplerTest, KnownTimesGiveTheExactFigures) {
  // The first run is the check, the second the look at the repeat; samples are runs 2 and later: 3, 4, 5 ...
  // seconds.
  rules_.floor = rules_.most = 11;
  const auto records = measure_with({taking("a", [](int run) { return run + 1.0; })});
  ASSERT_EQ(records.size(), 1U);
  const auto& record = records[0];
  EXPECT_EQ(record.samples, 11);
  ASSERT_EQ(record.samples_s.size(), 11U);
  for (int k = 0; k < 11; ++k) EXPECT_DOUBLE_EQ(record.samples_s[static_cast<std::size_t>(k)], 3.0 + k);
  EXPECT_DOUBLE_EQ(*record.median_s, 8.0);
  EXPECT_DOUBLE_EQ(*record.min_s, 3.0);
  EXPECT_DOUBLE_EQ(*record.ci_low_s, 4.0);    // rank 2 of 11
  EXPECT_DOUBLE_EQ(*record.ci_high_s, 12.0);  // rank 10
  EXPECT_EQ(record.verified_rows, 10);        // before the first and after the last sample
}

TEST_F(SamplerTest, ASampleThatItsWitnessDoubtsEndsTheCaseAsWrong) {
  rules_.floor = rules_.most = 11;
  auto one = taking("a", [](int) { return 1.0; });
  int looks = 0;
  one.quick_check = [&](int) { return ++looks == 3 ? Check{1, 1, "nothing changed"} : Check{}; };
  auto other = taking("b", [](int) { return 1.0; });
  const auto records = measure_with({one, other});
  EXPECT_EQ(looks, 3);
  EXPECT_EQ(records[0].status, Status::wrong);
  EXPECT_EQ(records[0].reason, "1 of 1 rows differ: nothing changed");
  EXPECT_TRUE(records[0].samples_s.empty());
  EXPECT_EQ(records[1].status, Status::ok);
}

TEST_F(SamplerTest, QuietCasesEndAtTheFloorAndNoisyOnesAtTheMost) {
  const auto quiet = measure_with({taking("a", [](int) { return 1.0; })});
  EXPECT_EQ(quiet[0].samples, rules_.floor);
  EXPECT_EQ(quiet[0].status, Status::ok);
  rules_.seconds = 1e9;
  const auto noisy = measure_with({taking("a", [](int run) { return run % 2 == 0 ? 1.0 : 9.0; })});
  EXPECT_EQ(noisy[0].samples, rules_.most);
  EXPECT_EQ(noisy[0].status, Status::unstable);
  EXPECT_NE(noisy[0].reason.find("interval"), std::string::npos);
  EXPECT_TRUE(noisy[0].median_s.has_value());
}

TEST_F(SamplerTest, TheTimeLimitEndsANoisyGroupAfterTheFloor) {
  rules_.seconds = 1;
  const auto records = measure_with({taking("a", [](int run) { return run % 2 == 0 ? 1.0 : 9.0; })});
  EXPECT_EQ(records[0].samples, rules_.floor);
}

TEST_F(SamplerTest, OneNoisyCaseKeepsItsWholeCellGoingButNoOther) {
  rules_.seconds = 1e9;
  auto other_cell = taking("quiet", [](int) { return 1.0; });
  other_cell.id.direction = "from";
  const auto records =
      measure_with({taking("quiet", [](int) { return 1.0; }),
                    taking("noisy", [](int run) { return run % 2 == 0 ? 1.0 : 9.0; }), other_cell});
  EXPECT_EQ(records[0].samples, rules_.most);
  EXPECT_EQ(records[1].samples, rules_.most);
  EXPECT_EQ(records[2].samples, rules_.floor);
}

TEST_F(SamplerTest, ThrottledSamplesAreCountedAndKept) {
  rules_.floor = rules_.most = 20;
  std::int64_t count = 0;
  int samples = 0;
  bool before = true;  // asked before and after each sample; two of the twenty are throttled
  hooks_.throttle_count = [&](const BenchmarkCase&) -> std::optional<std::int64_t> {
    if (!before && (++samples == 3 || samples == 7)) ++count;
    before = !before;
    return count;
  };
  auto one = taking("a", [](int) { return 1.0; });
  one.more = {{"pages_got", "4KiB"}, {"throttled", std::monostate{}}};
  const auto record = measure_with({one}).front();
  EXPECT_EQ(record.samples, 20);
  EXPECT_EQ(*reports::find(record.more, "throttled"), reports::Value(std::int64_t{2}));
  EXPECT_EQ(record.status, Status::ok);  // not more than a tenth
}

TEST_F(SamplerTest, ARowThatWasMostlyThrottledIsDoubted) {
  std::int64_t count = 0;
  hooks_.throttle_count = [&](const BenchmarkCase&) { return std::optional(++count); };
  const auto record = measure_with({taking("a", [](int) { return 1.0; })}).front();
  EXPECT_EQ(*reports::find(record.more, "throttled"), reports::Value(record.samples));
  EXPECT_EQ(record.status, Status::unstable);
  EXPECT_NE(record.reason.find("throttled"), std::string::npos);
  EXPECT_TRUE(record.median_s.has_value());
}

TEST_F(SamplerTest, ThrottlingThatIsNotKnownLeavesTheColumnEmpty) {
  hooks_.throttle_count = [](const BenchmarkCase&) { return std::optional<std::int64_t>(); };
  auto one = taking("a", [](int) { return 1.0; });
  one.more = {{"throttled", std::monostate{}}};
  EXPECT_EQ(*reports::find(measure_with({one}).front().more, "throttled"), reports::Value());
}

TEST_F(SamplerTest, ATraceHasEachSampleWithItsTime) {
  const Trace trace;
  const auto record = measure_with({taking("a", [](int run) { return run + 1.0; })}).front();
  const auto document = nlohmann::json::parse(trace.to_json(""));
  std::vector<double> timed;
  for (const auto& event : document["traceEvents"]) {
    if (event["name"] == "timed: " + format_case(record.id, {}))
      timed.push_back(event["dur"].get<double>() / 1e6);
  }
  ASSERT_GE(timed.size(), record.samples_s.size());
  timed.erase(timed.begin(), timed.end() - std::ssize(record.samples_s));  // the look at the repeat
  for (std::size_t k = 0; k < timed.size(); ++k) EXPECT_NEAR(timed[k], record.samples_s[k], 1e-9) << k;
}

TEST_F(SamplerTest, WorkThatEndsAfterTheCallIsTimedToItsEnd) {
  // A stream that queues: run() returns at once, finish() waits for what is queued.
  double queued = 0;
  BenchmarkCase asynchronous(
      identity("async"), Role::ours, [&](int) { queued += 2.5; }, good);
  asynchronous.finish = [&] { clock_.advance(std::exchange(queued, 0)); };
  const auto records = measure_with({asynchronous});
  EXPECT_DOUBLE_EQ(*records[0].median_s, 2.5);
}

TEST_F(SamplerTest, ShortRunsAreRepeatedOverRotatingSetsUntilTheClockCanReadThem) {
  rules_.clock_step_s = 1e-3;  // a sample must last a second
  std::map<int, int> runs_of_set;
  BenchmarkCase quick(
      identity("quick"), Role::ours,
      [&](int set) {
        ++runs_of_set[set];
        clock_.advance(0.1);
      },
      good);
  const auto records = measure_with({quick});
  ASSERT_EQ(records[0].more.front().first, "repeat");
  EXPECT_EQ(std::get<std::int64_t>(records[0].more.front().second), 16);
  EXPECT_NEAR(*records[0].median_s, 0.1, 1e-12);
  EXPECT_EQ(runs_of_set.size(), static_cast<std::size_t>(index_sets));
}

TEST_F(SamplerTest, AClockOfItsOwnGivesTheTimeAndRepeatsInsideOneRequest) {
  rules_.clock_step_s = 1e-3;  // a sample must last a second
  std::map<int, int> requests;
  int checked = 0;
  BenchmarkCase peer(
      identity("peer"), Role::peer, [&](int) { ++checked; }, good);
  peer.self_timed = [&](int first, int repeat) {
    EXPECT_TRUE(first >= 0 && first < index_sets);
    ++requests[repeat];
    clock_.advance(50);  // asking costs, and is nobody's time
    return repeat * 0.1;
  };
  const auto records = measure_with({peer});
  EXPECT_EQ(std::get<std::int64_t>(records[0].more.front().second), 16);
  EXPECT_NEAR(*records[0].median_s, 0.1, 1e-12);
  EXPECT_EQ(requests[16],
            3 + records[0].samples);  // the three that showed that it is enough, and the samples
  EXPECT_EQ(checked, 2);              // before the first and after the last sample
}

TEST_F(SamplerTest, ABreakInOneLookDoesNotMakeAShortOperationLong) {
  rules_.clock_step_s = 1e-3;  // a sample must last a second
  BenchmarkCase peer(
      identity("peer"), Role::peer, [](int) {}, good);
  int looks = 0;
  peer.self_timed = [&](int, int repeat) { return repeat * 0.1 + (++looks == 1 ? 20 : 0); };
  const auto records = measure_with({peer});
  EXPECT_EQ(std::get<std::int64_t>(records[0].more.front().second), 16);
}

TEST_F(SamplerTest, TheFirstMismatchTakesAllNumbersAway) {
  BenchmarkCase liar(
      identity("liar"), Role::ours, [&](int) { clock_.advance(1); },
      [](int) {
        return Check{5, 2, "row 3"};
      });
  const auto records = measure_with({liar, taking("honest", [](int) { return 1.0; })});
  EXPECT_EQ(records[0].status, Status::wrong);
  EXPECT_EQ(records[0].mismatches, 2);
  EXPECT_FALSE(records[0].median_s.has_value());
  EXPECT_TRUE(records[0].samples_s.empty());
  EXPECT_NE(records[0].reason.find("row 3"), std::string::npos);
  EXPECT_EQ(records[1].status, Status::ok);
}

TEST_F(SamplerTest, ACaseThatTurnsWrongLateIsCaughtByTheLastCheck) {
  int checks = 0;
  BenchmarkCase late(
      identity("late"), Role::ours, [&](int) { clock_.advance(1); },
      [&](int) {
        return Check{5, ++checks == 2 ? 1 : 0, "row 0"};
      });
  const auto records = measure_with({late});
  EXPECT_EQ(checks, 2);
  EXPECT_EQ(records[0].status, Status::wrong);
  EXPECT_FALSE(records[0].median_s.has_value());
}

TEST_F(SamplerTest, VerifyEveryChecksEachSample) {
  rules_.verify = Verify::every;
  int checks = 0, poisons = 0;
  BenchmarkCase one(
      identity("a"), Role::ours, [&](int) { clock_.advance(1); },
      [&](int) {
        return ++checks, Check{5, 0, {}};
      });
  one.poison = [&](int) { ++poisons; };
  const auto records = measure_with({one});
  EXPECT_EQ(checks, rules_.floor + 2);
  EXPECT_GE(poisons, checks);
  EXPECT_EQ(records[0].verified_rows, 5 * checks);
}

TEST_F(SamplerTest, EachSampleIsVariedBeforeAndLookedAtAfterIt) {
  for (const auto verify : {Verify::first, Verify::sampled, Verify::every}) {
    std::string log;
    BenchmarkCase one(
        identity("a"), Role::ours, [&](int) { log += 'r', clock_.advance(1); },
        [&](int) {
          return log += 'v', Check{5, 0, {}};
        });
    one.prepare = [&](int) { log += 'p'; };
    one.poison = [&](int) { log += 'x'; };
    one.vary = [&](int) { log += 'c'; };
    one.spot_check = [&](int) { return log += 's', Check{2, 0, {}}; };
    rules_.floor = rules_.most = 2;
    rules_.verify = verify;
    const auto record = measure_with({one}).front();
    // The first check, the look at the repeat, two samples, the last check.
    const std::map<Verify, std::string> expected{{Verify::first, "xprv pr pr pr xprv"},
                                                 {Verify::sampled, "cxprv cpr cprs cprs cxprv"},
                                                 {Verify::every, "cxprv cxpr cxprv cxprv cxprv"}};
    auto wanted = expected.at(verify);
    std::erase(wanted, ' ');
    EXPECT_EQ(log, wanted);
    EXPECT_EQ(record.verified_rows, 5 * std::ranges::count(log, 'v') + 2 * std::ranges::count(log, 's'));
  }
}

TEST_F(SamplerTest, ASampleWhoseSpotsDifferTakesAllNumbersAway) {
  auto one = taking("a", [](int) { return 1.0; });
  int samples = 0;
  one.spot_check = [&](int) { return ++samples == 3 ? Check{2, 1, "row 9"} : Check{2, 0, {}}; };
  const auto record = measure_with({one}).front();
  EXPECT_EQ(samples, 3);
  EXPECT_EQ(record.status, Status::wrong);
  EXPECT_NE(record.reason.find("row 9"), std::string::npos);
}

TEST_F(SamplerTest, ABlockOfSingleRunsIsVariedBeforeAndItsLastSetLookedAtAfterIt) {
  for (const double duration : {1e-5, 1e-3}) {  // a block ends after 50 runs, or after 2 ms
    std::string log;
    int varied = -1, last = -1, blocks = 0;
    auto one = taking("a", [&](int) { return duration; });
    one.latency = true;
    one.run = [&, run = one.run](int set) { log += 'r', last = set, run(set); };
    one.vary = [&](int set) { log += 'c', varied = set; };
    one.spot_check = [&](int set) {
      EXPECT_EQ(set, varied);
      EXPECT_EQ(set, last);
      ++blocks;
      return log += 's', Check{2, log.size() > 3000 ? 1 : 0, "row 9"};
    };
    rules_.latency_runs = 200'000;
    rules_.latency_seconds = 1e9;
    const auto record = measure_with({one}).front();
    EXPECT_THAT(log, testing::EndsWith(duration < 1e-4 ? "sc" + std::string(51, 'r') + "s" : "scrrrs"));
    EXPECT_GT(blocks, 50);
    EXPECT_EQ(record.status, Status::wrong);
    EXPECT_THAT(record.reason, testing::HasSubstr("row 9"));
  }
}

TEST_F(SamplerTest, AnExceptionFailsItsCaseOnly) {
  BenchmarkCase broken(
      identity("broken"), Role::ours, [](int) { throw std::runtime_error("no\nluck"); }, good);
  const auto records = measure_with({broken, taking("sound", [](int) { return 1.0; })});
  EXPECT_EQ(records[0].status, Status::failed);
  EXPECT_EQ(records[0].reason, "no luck");
  EXPECT_EQ(records[1].status, Status::ok);
}

TEST_F(SamplerTest, EachRunIsPreparedAndEachCheckPoisonedFirst) {
  std::string log;
  BenchmarkCase one(
      identity("a"), Role::ours, [&](int) { log += 'r', clock_.advance(1); },
      [&](int) {
        return log += 'v', Check{1, 0, {}};
      });
  one.prepare = [&](int) { log += 'p'; };
  one.poison = [&](int) { log += 'x'; };
  rules_.floor = rules_.most = 2;
  measure_with({one});
  EXPECT_EQ(log,
            "xprv"
            "pr"
            "prpr"
            "xprv");
}

std::vector<std::string> order_of_runs(std::uint64_t seed) {
  FakeClock clock;
  std::vector<std::string> order;
  std::vector<BenchmarkCase> group;
  for (const char* name : {"a", "b", "c", "d"}) {
    group.emplace_back(
        identity(name), Role::ours,
        [&clock, &order, name](int) { order.emplace_back(name), clock.advance(1); }, good);
  }
  SamplingRules rules;
  rules.seed = seed;
  SamplerHooks hooks;
  hooks.now_s = [&clock] { return clock.now; };
  measure(group, rules, hooks);
  return order;
}

TEST_F(SamplerTest, RoundsHoldEachCaseOnceInSeededOrder) {
  const auto order = order_of_runs(1);
  EXPECT_EQ(order, order_of_runs(1));
  EXPECT_NE(order, order_of_runs(2));
  bool shuffled = false;
  for (std::size_t round = 0; round < 11; ++round) {
    std::vector<std::string> names(order.begin() + static_cast<std::ptrdiff_t>(8 + 4 * round),
                                   order.begin() + static_cast<std::ptrdiff_t>(12 + 4 * round));
    shuffled = shuffled || names != std::vector<std::string>{"a", "b", "c", "d"};
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c", "d"}));
  }
  EXPECT_TRUE(shuffled);
}

TEST_F(SamplerTest, FasterThanTheCeilingIsDoubtedWhereTheCacheCannotExplainIt) {
  auto fast = taking("fast", [](int) { return 1.0; });
  fast.judged_by_ceiling = true;
  const auto ceiling = taking(
      "copy", [](int) { return 1.1; }, Role::ceiling);
  auto records = measure_with({fast, ceiling});
  EXPECT_EQ(records[0].status, Status::unstable);
  EXPECT_NE(records[0].reason.find("1.10 times the ceiling"), std::string::npos);
  fast.judged_by_ceiling = false;  // its payload fits into a cache: cached rows are honestly faster
  records = measure_with({fast, ceiling});
  EXPECT_EQ(records[0].status, Status::ok);
}

TEST_F(SamplerTest, NeighboursWorkOnDifferentSets) {
  std::vector<int> first_sets;
  std::vector<BenchmarkCase> group;
  for (const char* name : {"a", "b", "c"}) {
    const auto seen = std::make_shared<bool>(false);
    group.emplace_back(
        identity(name), Role::ours,
        [&, seen](int set) {
          if (!std::exchange(*seen, true)) first_sets.push_back(set);
          clock_.advance(1);
        },
        good);
  }
  measure_with(group);
  EXPECT_EQ(first_sets, (std::vector<int>{0, 1, 2}));
}

double column(const Record& record, const std::string& name) {
  const auto* value = reports::find(record.more, name);
  if (value == nullptr || std::holds_alternative<std::monostate>(*value)) return -1;
  const auto* whole = std::get_if<std::int64_t>(value);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(*value);
}

TEST_F(SamplerTest, LatenciesAreThoseOfSingleRunsEachTimedByItself) {
  rules_.clock_step_s = 1e-3;  // so that a sample is the mean of many runs
  rules_.latency_runs = 400;
  rules_.latency_seconds = 1e9;
  // Every 17th run takes 18 times as long: the mean of many is 2, the median 1, the 99 % quantile 18. Blocks
  // have three runs, and 17 is no multiple of three: else the slow run could always be the untimed one.
  auto uneven = taking("a", [](int run) { return run % 17 == 0 ? 18e-3 : 1e-3; });
  uneven.latency = true;
  const auto records = measure_with({uneven, taking("b", [](int) { return 1.0; })});
  EXPECT_EQ(column(records[0], "latency_runs"), 400);
  EXPECT_NEAR(column(records[0], "latency_p50_s"), 1e-3, 1e-12);
  EXPECT_NEAR(column(records[0], "latency_p99_s"), 18e-3, 1e-12);
  EXPECT_EQ(column(records[0], "latency_clock_s"), 0);
  EXPECT_NEAR(*records[0].median_s, 2e-3, 1e-4);
  // 6 % of the 400 runs were slow.
  EXPECT_EQ(
      std::get<std::string>(*reports::find(records[0].more, "latency_curve")),
      "0:0.001 0.01:0.001 0.05:0.001 0.1:0.001 0.2:0.001 0.3:0.001 0.4:0.001 0.5:0.001 0.6:0.001 0.7:0.001 "
      "0.8:0.001 0.9:0.001 0.95:0.018 0.98:0.018 0.99:0.018 0.995:0.018 0.999:0.018 1:0.018");
  for (const char* name :
       {"latency_p50_s", "latency_p99_s", "latency_runs", "latency_clock_s", "latency_curve"}) {
    ASSERT_NE(reports::find(records[1].more, name), nullptr) << "each record has the column";
    EXPECT_EQ(column(records[1], name), -1) << "nobody asked for it";
  }
}

TEST_F(SamplerTest, LatenciesByAClockOfItsOwnLeaveOutTheAskingAndOurClock) {
  rules_.latency_runs = 200;
  rules_.latency_seconds = 1e9;
  BenchmarkCase peer(
      identity("peer"), Role::peer, [](int) {}, good);
  peer.latency = true;
  peer.self_timed = [&](int, int repeat) {
    clock_.advance(50);  // asking costs, and is nobody's time
    return repeat * 1e-3;
  };
  const auto records = measure_with({peer});
  EXPECT_EQ(column(records[0], "latency_runs"), 200);
  EXPECT_NEAR(column(records[0], "latency_p50_s"), 1e-3, 1e-12);
  EXPECT_NEAR(column(records[0], "latency_p99_s"), 1e-3, 1e-12);
  EXPECT_EQ(column(records[0], "latency_clock_s"), -1);
}

TEST_F(SamplerTest, SingleRunsTakeTurnsInBlocksAfterTheRounds) {
  std::string log;
  std::vector<BenchmarkCase> group;
  for (const char name : {'a', 'b'}) {
    group.emplace_back(
        identity(std::string(1, name)), Role::ours, [&, name](int) { log += name, clock_.advance(1e-5); },
        good);
    group.back().latency = true;
  }
  rules_.latency_runs = 200;
  rules_.latency_seconds = 1e9;
  measure_with(group);
  // A block is 50 timed runs after one that is not; four of them a case, and the last checks.
  const auto singles = log.substr(log.size() - 2 - 8 * 51, 8 * 51);
  for (std::size_t pair = 0; pair < 4; ++pair) {
    const auto one = singles.substr(pair * 102, 51), other = singles.substr(pair * 102 + 51, 51);
    EXPECT_EQ(one, std::string(51, one[0]));
    EXPECT_EQ(other, std::string(51, one[0] == 'a' ? 'b' : 'a'));
  }
}

TEST_F(SamplerTest, BlocksOfSingleRunsAreCheckedAsSamplesAre) {
  for (const auto verify : {Verify::first, Verify::sampled, Verify::every}) {
    int varied = -1, last = -1, spots = 0, wholes = 0;
    auto one = taking("a", [](int) { return 1e-5; });
    one.latency = true;
    one.run = [&, run = one.run](int set) { last = set, run(set); };
    one.vary = [&](int set) { varied = set; };
    const auto seen = [&](int set) {
      EXPECT_EQ(set, last);
      EXPECT_TRUE(set == varied || verify == Verify::first);
      return Check{2, 0, {}};
    };
    one.spot_check = [&](int set) { return ++spots, seen(set); };
    one.verify = [&](int set) { return ++wholes, seen(set); };
    rules_.latency_seconds = 1e9;
    rules_.verify = verify;
    const auto checks = [&](int runs) {
      rules_.latency_runs = runs;
      varied = -1, spots = 0, wholes = 0;
      EXPECT_EQ(column(measure_with({one}).front(), "latency_runs"), runs);
      return std::pair(spots, wholes);
    };
    // A block has 50 runs; the last of 107 has the 7 that are left.
    const auto more = checks(107), fewer = checks(100);
    EXPECT_EQ(more.first - fewer.first, verify == Verify::sampled ? 1 : 0);
    EXPECT_EQ(more.second - fewer.second, verify == Verify::every ? 1 : 0);
  }
}

TEST_F(SamplerTest, ACaseTooSlowForEnoughSingleRunsHasNoLatency) {
  rules_.latency_seconds = 5;
  auto slow = taking("slow", [](int) { return 1.0; });
  slow.latency = true;
  const auto records = measure_with({slow});
  EXPECT_EQ(column(records[0], "latency_p99_s"), -1);
  EXPECT_EQ(records[0].status, Status::ok);
  EXPECT_LT(clock_.now, 60);
}

TEST_F(SamplerTest, UnrepeatableCaseRunsOncePerSample) {
  rules_.clock_step_s = 1;
  auto one = taking("a", [](int) { return 1.0; });
  one.repeatable = false;
  EXPECT_EQ(std::get<std::int64_t>(measure_with({one})[0].more.front().second), 1);
}

/// Steps of a training: the run before a sample is of the same case, and on another set.
TEST_F(SamplerTest, AShortRunInSeriesFollowsAnUntimedOne) {
  rules_.floor = rules_.most = 5;
  std::vector<std::string> runs;
  const auto in_series = [&](const std::string& method, double seconds) {
    BenchmarkCase one(
        identity(method), Role::ours,
        [&runs, this, method, seconds](int set) {
          clock_.advance(seconds);
          runs.push_back(method + std::to_string(set));
        },
        good);
    one.in_series = true, one.repeatable = false;
    return one;
  };
  const auto count = [&](double fast, double slow) {
    runs.clear();
    const auto records = measure_with({in_series("a", fast), in_series("b", slow)});
    for (const auto& record : records) EXPECT_EQ(record.samples_s.size(), 5U);
    return runs.size();
  };
  EXPECT_EQ(count(0.003, 0.004), 2 * (1 + 1 + 5 + 1)) << "checks, a first look and samples";
  EXPECT_EQ(count(0.001, 0.004), 2 * (1 + 1 + 2 * 5 + 1)) << "all, because the fastest is short";
  for (std::size_t i = 4; i + 2 < runs.size(); i += 2) {
    EXPECT_EQ(runs[i].front(), runs[i + 1].front()) << "of the same case";
    EXPECT_NE(runs[i], runs[i + 1]) << "on another set";
  }
}

TEST_F(SamplerTest, AnInterruptedGroupKeepsTheCasesWithEnoughSamples) {
  rules_.seconds = 1e9;
  int asked = 0;
  hooks_.stop = [&] { return ++asked > 2 + 2 * 12; };  // during warm-up once a case, then once a sample
  const auto noisy = [](int run) { return run % 2 == 0 ? 1.0 : 9.0; };
  EXPECT_EQ(measure_with({taking("a", noisy), taking("b", noisy)}).size(), 2U);
  asked = 20;
  EXPECT_TRUE(measure_with({taking("a", noisy), taking("b", noisy)}).empty());
}

TEST_F(SamplerTest, TheWatchdogIsToldOfEachStep) {
  std::vector<std::string> phases;
  int open = 0;
  hooks_.enter = [&](const BenchmarkCase&, std::string_view phase) { phases.emplace_back(phase), ++open; };
  hooks_.leave = [&] { --open; };
  measure_with({taking("a", [](int) { return 1.0; })});
  EXPECT_EQ(open, 0);
  EXPECT_EQ(phases.size(), static_cast<std::size_t>(rules_.floor) + 2);
  EXPECT_EQ(phases.front(), "warm-up");
  EXPECT_EQ(phases.back(), "check");
}

}  // namespace
}  // namespace stbench::harness

#include "benchmarks/transfer/case_runner.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <utility>

#include "benchmarks/suite/cache_bytes.h"
#include "benchmarks/suite/plainly.h"
#include "benchmarks/transfer/case_identity.h"
#include "benchmarks/transfer/concurrent.h"
#include "benchmarks/transfer/method.h"
#include "benchmarks/transfer/reading_pass.h"
#include "speedtorch/cuda.h"

namespace stbench {
namespace {

using harness::BenchmarkCase;
using harness::Check;

/// Up to this many rows per operation, users wait for its latency, not for the bandwidth.
constexpr std::int64_t small_batch = 4096;

/// The cache that could hold a payload and so make it faster than memory.
std::int64_t cache_bytes(const TransferCase& one, std::int64_t host_cache_bytes) {
  return one.on_gpu() ? speedtorch::cuda_cache_bytes(one.device) : host_cache_bytes;
}

/// The value generations of each set. Only a round trip writes new values each time. `from` writes what the
/// table was filled with, generation 0: checked rows are poisoned first, so a row that was not written is
/// found nevertheless, and the table needs no new fill after each cell.
class Generations {
 public:
  explicit Generations(bool fresh) : fresh_(fresh) {}
  std::uint64_t next(int set) { return of_[static_cast<std::size_t>(set)] = fresh_ ? ++last_ : last_; }
  [[nodiscard]] std::uint64_t now(int set) const { return of_[static_cast<std::size_t>(set)]; }

 private:
  bool fresh_;
  std::uint64_t last_ = 0;
  std::array<std::uint64_t, harness::index_sets> of_{};
};

/// Fresh index sets for a method that keeps rows: one that was looked up before would find its rows again,
/// more than a program's next look-up does.
class FreshSets {
 public:
  FreshSets(TransferFixture& fixture, DrawSet draw) : fixture_(fixture), draw_(std::move(draw)) {}

  /// Looks up sets until the method's memory has what it will keep.
  void warm_up(const Method& method) {
    const auto at_once = std::min(most_rows_at_once, fixture_.operands.table().size(0));
    fill_until_settled([&] {
      auto rows = draw_(next_++);
      while (std::ssize(rows) < at_once) {
        const auto more = draw_(next_++);
        rows.insert(rows.end(), more.begin(), more.end());
      }
      return method.warm(fixture_.operands, at::tensor(rows, at::kLong));
    });
  }

  /// Draws a set that is neither the one at hand nor the one before it.
  void replace_one(int at_hand) {
    constexpr int ahead = harness::index_sets / 2;
    fixture_.set_index((at_hand + ahead) % harness::index_sets, draw_(next_++));
  }

 private:
  TransferFixture& fixture_;
  DrawSet draw_;
  int next_ = harness::index_sets;
};

/// One case of a fixture: its operation by the case's direction, and the check of what it left.
class CaseRunner {
 public:
  CaseRunner(const TransferCase& one, std::shared_ptr<TransferFixture> fixture,
             std::shared_ptr<CallerThreads> threads, const DrawSet& draw)
      : case_(one),
        method_(*one.method),
        fixture_(std::move(fixture)),
        generations_(one.direction == Direction::round_trip) {
    if (method_.open)
      out_of_process_ = method_.open(std::shared_ptr<Operands>(fixture_, &fixture_->operands), one);
    if (one.bidirectional()) bidirectional_ = std::make_unique<Bidirectional>(*fixture_, method_);
    if (keeps_rows(method_)) fresh_sets_ = std::make_unique<FreshSets>(*fixture_, draw);
    if (threads) concurrent_ = std::make_unique<ConcurrentCallers>(*fixture_, std::move(threads));
  }

  void prepare(int set) {
    if (case_.writes()) {
      fixture_->prepare_values(method_.pattern, set, generations_.next(set));
    } else {
      fixture_->forget_results();
    }
    if (!fresh_sets_) return;
    if (!std::exchange(warm_, true)) fresh_sets_->warm_up(method_);
    fresh_sets_->replace_one(set);
  }

  void vary(int set) {
    varied_ = set;
    // A process beside this one has mapped the first destination.
    fixture_->vary(case_, method_.pattern, set, static_cast<bool>(out_of_process_));
  }

  void poison(int set) {
    if (bidirectional_) return bidirectional_->poison(set);
    if (case_.reads()) fixture_->poison_model();
    if (case_.writes()) fixture_->verifier.poison_rows(fixture_->operands, method_.pattern, set);
  }

  /// If the operation breaks off, its rows are repaired: others must not be blamed for the poison in them.
  void run(int set) {
    try {
      plainly([&] { run_unguarded(set); });
    } catch (...) {
      repair(set);
      throw;
    }
  }

  void finish() const { fixture_->operands.finish(); }

  Check verify(int set) {
    auto check = verify_named(set);
    if (!case_.writes()) return check;
    const auto others = fixture_->verifier.check_others(method_.pattern, set);
    if (check.mismatches == 0 && others.mismatches > 0 && is_innocent(set)) {
      fixture_->verifier.remember(others);
    } else {
      merge(check, others);
    }
    return check;
  }

  /// Some rows of the last operation.
  Check spot_check(int set) {
    return fixture_->check_spots(case_, method_.pattern, set, generation(set), method_.equality);
  }

  /// True if the operations run in another process or in threads that start together, whose clock counts.
  [[nodiscard]] bool self_timed() const { return out_of_process_ || concurrent_; }

  /// Seconds of `repeat` operations over rotating sets from `first` on. If they break off, none of their sets
  /// can be trusted, and all are repaired.
  double seconds(int first, int repeat) {
    try {
      return plainly(
          [&] { return concurrent_ ? concurrent_seconds(first, repeat) : out_of_process_(first, repeat); });
    } catch (...) {
      for (int k = 0; k < std::min(repeat, harness::index_sets); ++k)
        repair((first + k) % harness::index_sets);
      throw;
    }
  }

 private:
  void run_on(Operands& operands, int set) {
    if (case_.writes()) method_.from(operands, set);
    if (case_.reads()) method_.to(operands, set);
    if (case_.consumes()) sum_ = sum_of_words(operands.result());
  }

  double concurrent_seconds(int first, int rounds) {
    return concurrent_->run(first, rounds, [this](Operands& slice, int set) { run_on(slice, set); });
  }

  void run_unguarded(int set) {
    if (out_of_process_) {
      out_of_process_(set, 1);
    } else if (bidirectional_) {
      bidirectional_->run(set);
    } else if (concurrent_) {
      concurrent_seconds(set, 1);
    } else {
      run_on(fixture_->operands, set);
    }
  }

  /// Also of the set that was varied last, which an operation on an earlier one may have kept from running.
  void repair(int set) {
    if (!case_.writes()) return;
    for (const int poisoned : {set, varied_}) fixture_->verifier.repair(method_.pattern, poisoned);
  }

  Check verify_named(int set) {
    if (bidirectional_) return bidirectional_->verify(set);
    Check check;
    if (case_.reads()) check = fixture_->check_model(method_.pattern, set, generation(set), method_.equality);
    if (case_.consumes()) merge(check, check_sum());
    if (case_.writes()) merge(check, fixture_->verifier.check_named(method_.pattern, set, generation(set)));
    return check;
  }

  [[nodiscard]] std::uint64_t generation(int set) const { return case_.writes() ? generations_.now(set) : 0; }

  /// The pass of `consume` read what the method delivered.
  [[nodiscard]] Check check_sum() const {
    const auto& read = fixture_->operands.result();
    if (sum_ == plain_sum_of_words(read)) return {};
    return {.rows = 0, .mismatches = 1, .first = "the sum of the rows that were read is not theirs"};
  }

  /// Rows that were not named differ. Another case's samples may have written them, whose own check comes
  /// later. So this case runs once more, on the repaired table, to show what it does.
  bool is_innocent(int set) {
    poison(set);
    prepare(set);
    run(set);
    finish();
    return verify_named(set).mismatches == 0 &&
           fixture_->verifier.check_others(method_.pattern, set).mismatches == 0;
  }

  TransferCase case_;
  const Method& method_;
  std::shared_ptr<TransferFixture> fixture_;
  Method::OutOfProcess out_of_process_;            ///< empty if the method runs in this process
  std::unique_ptr<Bidirectional> bidirectional_;   ///< null for other directions
  std::unique_ptr<ConcurrentCallers> concurrent_;  ///< null for one caller
  std::unique_ptr<FreshSets> fresh_sets_;          ///< null unless the method keeps rows
  bool warm_ = false;
  int varied_ = 0;  ///< the set of the last vary()
  Generations generations_;
  std::uint64_t sum_ = 0;  ///< of what the pass of `consume` read last
};

}  // namespace

BenchmarkCase runnable_case(const TransferCase& one, const std::shared_ptr<TransferFixture>& fixture,
                            const std::shared_ptr<CallerThreads>& threads, const std::shared_ptr<Cold>& cold,
                            std::int64_t host_cache_bytes, const DrawSet& draw) {
  const auto& method = *one.method;
  const auto& operands = fixture->operands;
  const auto runner = std::make_shared<CaseRunner>(one, fixture, threads, draw);
  BenchmarkCase runnable(
      identity_of(one), method.role, [runner](int set) { runner->run(set); },
      [runner](int set) { return runner->verify(set); });
  runnable.prepare = [runner, cold](int set) {
    plainly([&] {
      runner->prepare(set);
      if (cold) cold->evict();
    });
  };
  runnable.poison = [runner](int set) { plainly([&] { runner->poison(set); }); };
  runnable.vary = [runner](int set) { plainly([&] { runner->vary(set); }); };
  runnable.spot_check = [runner](int set) { return plainly([&] { return runner->spot_check(set); }); };
  runnable.finish = [runner] { runner->finish(); };
  if (runner->self_timed())
    runnable.self_timed = [runner](int first, int repeat) { return runner->seconds(first, repeat); };
  const int operations = one.direction == Direction::round_trip ? 2 : 1;
  const bool indexed = method.pattern == Pattern::indexed;
  runnable.payload_bytes = operations * operands.payload_bytes();
  runnable.index_bytes = indexed ? operations * operands.index_bytes() : 0;
  runnable.latency = one.batch <= small_batch && !one.bidirectional() && !threads && !cold;
  // A second run in a cold sample would find what the first has brought into the caches.
  runnable.repeatable = (!one.writes() || operands.rotates_values()) && !cold && !keeps_rows(method);
  // Duplicate rows and small payloads may come from a cache, which is faster than a copy.
  const bool distinct = one.distribution == "unique" || one.distribution == "sequential";
  runnable.judged_by_ceiling =
      indexed && distinct && operands.payload_bytes() > cache_bytes(one, host_cache_bytes);
  return runnable;
}

}  // namespace stbench

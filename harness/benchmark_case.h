/// A case that the sampler can run.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "reports/record.h"
#include "reports/statistics/role.h"

namespace stbench::harness {

/// The result of a check.
struct Check {
  std::int64_t rows = 0;        ///< rows compared with the reference
  std::int64_t mismatches = 0;  ///< rows that differ
  std::string first;            ///< the first of them in words; empty if none
};

/// How a case is compared with the others of its cell.
using reports::Role;

/// Every step gets the number of the index set that it works on; sets rotate. The verifier is a constructor
/// argument, so that no case compiles without one.
struct BenchmarkCase {
  using Step = std::function<void(int set)>;
  using Verifier = std::function<Check(int set)>;

  BenchmarkCase(reports::Identity identity, Role role_, Step run_, Verifier verify_)
      : id(std::move(identity)), role(role_), run(std::move(run_)), verify(std::move(verify_)) {}

  reports::Identity id;
  Role role;
  Step run;         ///< timed: one operation; it may return before its work is done
  Verifier verify;  ///< untimed: compares the result of the last operation on `set` with the reference

  Step prepare = [](int) {};  ///< untimed, before each sample: fresh values, evicted caches
  Step poison = [](int) {};   ///< untimed, before each verified run: nothing old may pass as a result
  /// Untimed, before each sample, each block of single runs and each verified run, and before `prepare`:
  /// changes what the operation on `set` finds, so that the answer of an earlier one is wrong.
  Step vary = [](int) {};
  std::function<void()> finish = [] {};  ///< timed: returns when all work is done (the closing synchronise)
  /// Untimed, after each sample and each block of single runs: a cheap check that the last operation did
  /// anything. A mismatch ends the case as `wrong`. Empty if there is nothing to check.
  Verifier quick_check;
  /// Untimed, after each sample and each block of single runs: compares some of the rows of its last
  /// operation, drawn after it ran, with the reference. Empty if the case has no such check.
  Verifier spot_check;
  /// Untimed, directly after each sample and before what compares its result: looks at what it left. May be
  /// empty.
  std::function<void()> after_sample;
  /// For work in another process or in threads that start together: runs `repeat` operations over rotating
  /// sets from `first` on and returns the seconds of all of them by their own clock (a request costs tens of
  /// microseconds). If empty, the sampler times `run` and `finish`.
  std::function<double(int first, int repeat)> self_timed;
  std::int64_t payload_bytes = 0;  ///< of one operation
  std::int64_t index_bytes = 0;    ///< of one operation
  bool judged_by_ceiling =
      false;               ///< no cache can explain a speed above the ceiling, so that it would be an error
  bool latency = false;    ///< single runs are timed, too, for the latency of one operation
  bool repeatable = true;  ///< back-to-back runs over several sets keep their meaning
  /// Its runs follow each other in practice, as the steps of a training do. If a run of the group is short,
  /// an untimed one of the case precedes each sample: the runs of other cases in between leave its code and
  /// data out of the caches (a step of a small net: 223 us instead of 140).
  bool in_series = false;
  reports::Columns more;  ///< plain columns of the suite
};

}  // namespace stbench::harness

/// One case, ready to run: what the sampler needs of it.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "reports/record.h"
#include "reports/statistics/role.h"

namespace stbench::harness {

/// What a check found.
struct Check {
  std::int64_t rows = 0;        ///< rows compared with the reference
  std::int64_t mismatches = 0;  ///< rows that differ
  std::string first;            ///< the first of them in words, empty where none
};

/// How a case is judged against the others of its cell.
using reports::Role;

/// A case that can be run. Every step is told which of the rotating index sets it works on. The verifier is a
/// constructor argument, so that no case without one compiles.
struct Contestant {
  using Step = std::function<void(int set)>;
  using Verifier = std::function<Check(int set)>;

  Contestant(reports::Identity identity, Role role_, Step run_, Verifier verify_)
      : id(std::move(identity)), role(role_), run(std::move(run_)), verify(std::move(verify_)) {}

  reports::Identity id;
  Role role;
  Step run;         ///< timed: one operation; it may return before its work is done
  Verifier verify;  ///< untimed: compares the result of the last operation on `set` with the reference

  Step prepare = [](int) {};  ///< untimed, before each sample: fresh values, evicted caches
  Step poison = [](int) {};   ///< untimed, before each verified run: nothing old may pass as a result
  std::function<void()> finish = [] {};  ///< timed: returns when all work is done (the closing synchronise)
  /// Untimed, after each sample: a quick look whether its last operation did anything; empty where nothing is
  /// to be seen. What differs ends the case as `wrong`.
  Verifier witness;
  /// Where the work is done in another process or in threads that start together, whose clock it is then
  /// (asking costs tens of microseconds): runs `repeat` operations over rotating sets from `first` on,
  /// returns the seconds of all of them. Empty: the sampler takes the time around `run` and `finish`.
  std::function<double(int first, int repeat)> own_clock;
  std::int64_t payload_bytes = 0;  ///< of one operation
  std::int64_t index_bytes = 0;    ///< of one operation
  bool judged_by_ceiling = false;  ///< a speed above the ceiling would be an error: no cache can explain it
  bool latency = false;            ///< single runs are timed, too: the latency of one operation
  bool repeatable = true;          ///< back-to-back runs over several sets keep their meaning
  reports::Columns more;           ///< plain columns of the suite
};

}  // namespace stbench::harness

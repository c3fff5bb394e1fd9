/// The ranks that the groups of a run share.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "benchmarks/sharded/ranks.h"

namespace stbench {

/// Starts ranks when a group needs them, and keeps them as long as the next group needs as many. Ranks of a
/// launcher stay the same for the whole run.
class Crew {
 public:
  /// @param cpus that the process may use
  Crew(std::vector<int> cpus, std::chrono::milliseconds timeout)
      : cpus_(std::move(cpus)), timeout_(timeout) {}

  /// Joins the ranks of a launcher. @throws speedtorch::GroupError
  void join();
  /// Ranks that are alive, if they are not a launcher's. @throws as Ranks
  Ranks& of(int size);
  /// The CPUs of each rank's threads; none if the ranks are a launcher's, or too many to have their own.
  [[nodiscard]] std::vector<std::vector<int>> cpus_of_ranks(int ranks, int cores) const;

 private:
  std::vector<int> cpus_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<Ranks> ranks_;
  bool launched_ = false;
};

}  // namespace stbench

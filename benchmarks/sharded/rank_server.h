/// One rank's part of the sharded suite: it does what rank 0, which measures and reports, tells all ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/sharded/method.h"
#include "harness/random.h"
#include "speedtorch/sharded/rank_group.h"

namespace stbench {

/// Requests and answers are JSON objects. `do` says what: `host` tells the hosts apart; `open` makes a cell
/// and the methods of its cases; `prepare`, `run`, `time`, `poison` and `check` are for a `method` (its
/// number in the cell) and a `set`; `close` frees the cell, `end` ends the ranks but rank 0.
class RankServer {
 public:
  explicit RankServer(const speedtorch::RankGroup& group) : group_(group) {}

  /// Does one request together with the other ranks. @throws what the methods throw
  nlohmann::json answer(const nlohmann::json& request);

 private:
  nlohmann::json open(const nlohmann::json& request);
  nlohmann::json run(RankGather& method, int set);
  nlohmann::json time(RankGather& method, int first, int repeat);
  nlohmann::json check(const RankGather& method, int set, bool all);

  speedtorch::RankGroup group_;
  harness::Random random_{0};
  std::unique_ptr<RankCell> cell_;
  std::vector<std::unique_ptr<RankGather>> methods_;  ///< before the cell, which they refer to, is freed
};

/// Does what rank 0 says until it ends the group, or is gone.
/// @param timeout the longest wait for another rank in an operation
void serve_rank(speedtorch::RankGroup group, std::chrono::milliseconds timeout);

}  // namespace stbench

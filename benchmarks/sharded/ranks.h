/// Rank 0's hold on all ranks of a group.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/sharded/rank_processes.h"
#include "benchmarks/sharded/rank_server.h"
#include "speedtorch/sharded/rank_group.h"

namespace stbench {

/// A rank is lost or failed. None can be asked any more.
struct RanksLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Ranks {
 public:
  /// Starts the other ranks on this host. @throws RanksLost; std::runtime_error if they cannot be started
  Ranks(int size, std::chrono::milliseconds timeout);
  /// Joins the ranks that a launcher started. @throws speedtorch::GroupError
  explicit Ranks(std::chrono::milliseconds timeout);
  /// Ends the other ranks.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool lost() const { return !reason_.empty(); }
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }

  /// Lets all ranks do the request, this one too. Returns their answers in their order.
  /// @throws RanksLost on the first failure of any rank, and always after it
  std::vector<nlohmann::json> ask(const nlohmann::json& request);

 private:
  [[noreturn]] void lose(const std::string& reason);

  std::chrono::milliseconds timeout_;
  int size_ = 0;
  std::string reason_;
  std::unique_ptr<RankProcesses> processes_;
  std::optional<speedtorch::RankGroup> group_;
  std::optional<RankServer> server_;
};

}  // namespace stbench

/// One cell of the sharded suite, measured on all ranks at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/sharded/crew.h"
#include "benchmarks/sharded/method.h"
#include "benchmarks/suite/suite.h"

namespace stbench {

class ShardedGroup final : public TimedGroup {
 public:
  /// @param distribution as the user gave it
  /// @param cases of one cell
  ShardedGroup(std::vector<reports::Identity> cases, std::string distribution, std::uint64_t seed,
               std::shared_ptr<Crew> crew);

  std::vector<harness::BenchmarkCase> prepare() override;
  void close(std::vector<reports::Record>& records) override;

 private:
  using Answers = std::vector<nlohmann::json>;

  [[nodiscard]] harness::BenchmarkCase runnable(std::size_t number);
  Answers ask(const char* what, std::size_t method, int set,
              nlohmann::json request = nlohmann::json::object());
  void run(std::size_t method, int set);
  [[nodiscard]] double time(std::size_t method, int first, int repeat);
  [[nodiscard]] harness::Check check(std::size_t method, int set, bool all);
  void add_bandwidths(reports::Record& record) const;

  std::string distribution_;
  std::uint64_t seed_;
  std::shared_ptr<Crew> crew_;
  Ranks* ranks_ = nullptr;
  std::vector<reports::Columns> columns_;  ///< of each case
};

}  // namespace stbench

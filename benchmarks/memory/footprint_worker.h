/// The child's side of the memory suite: a table is made, filled, checked, held and freed, each when it is
/// asked for, so that the parent can look at the process in between. The lines are those of a peer's
/// (docs/peers.md).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "benchmarks/memory/allocator.h"

namespace stbench {

/// How the program is told to be such a child: not for users.
inline constexpr const char* footprint_command = "internal-hold";

/// A table to be held, as the request `hold` has it.
struct FootprintRequest {
  std::string method, placement, device;
  std::int64_t rows = 0, row_bytes = 0;
  std::int64_t touched_rows = 0;  ///< from the first on, which are filled and checked
  std::uint64_t seed = 0;
  std::vector<int> cpus;  ///< of its threads

  [[nodiscard]] std::int64_t bytes() const { return rows * row_bytes; }
};

nlohmann::json to_json(const FootprintRequest& request);
/// @throws nlohmann::json::exception for what to_json did not write
FootprintRequest footprint_request(const nlohmann::json& json);

/// What the requests do.
class FootprintWorker {
 public:
  /// The answer to a line: `ready` to hold, `held` to allocate, `freed` to free, each with figures.
  /// @throws std::exception whose text is the answer's reason
  std::string answer(const std::string& line);

 private:
  std::string get_ready(const nlohmann::json& json);
  std::string allocate();
  std::string free();
  [[nodiscard]] nlohmann::json figures() const;

  FootprintRequest request_;
  std::shared_ptr<speedtorch::Memory> memory_;
};

/// Answers on the standard output until the input ends. @returns the exit status
int serve_footprint();

}  // namespace stbench

/// The child process of the memory suite: allocates, fills, checks, holds and frees a table, one step per
/// request, so that the parent can read the process's memory in between. Requests are lines as of a peer
/// (docs/peers.md).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "benchmarks/memory/allocator.h"
#include "benchmarks/tables/table_file.h"

namespace stbench {

/// The internal command that starts such a child.
inline constexpr const char* footprint_command = "internal-hold";

/// The table of a request `hold`.
struct FootprintRequest {
  std::string method, placement, device;
  std::int64_t rows = 0, row_bytes = 0;
  std::int64_t touched_rows = 0;  ///< filled and checked, from the first row on
  std::uint64_t seed = 0;
  std::vector<int> cpus;  ///< of its threads
  std::string table;      ///< the file that has the rows; empty: the fill of the seed

  [[nodiscard]] std::int64_t bytes() const { return rows * row_bytes; }
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FootprintRequest, method, placement, device, rows, row_bytes, touched_rows,
                                   seed, cpus, table)

/// Answers the requests.
class FootprintWorker {
 public:
  /// The answer to a line: `ready` to hold, `held` to allocate, `freed` to free, each with figures.
  /// @throws std::exception whose text is the answer's reason
  std::string answer(const std::string& line);

 private:
  std::string get_ready(FootprintRequest request);
  std::string allocate();
  void fill_table() const;
  [[nodiscard]] harness::Check check_table() const;
  std::string free();
  [[nodiscard]] nlohmann::json figures() const;

  FootprintRequest request_;
  std::unique_ptr<TableFile> file_;  ///< of the request; null without one
  std::shared_ptr<speedtorch::Memory> memory_;
};

/// Answers requests on the standard output until the input ends. @returns the exit status
int serve_footprint();

}  // namespace stbench

/// The places for a table, the bytes that each takes, and whether they are available. Nothing is allocated or
/// measured for this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/advise/question.h"
#include "speedtorch/placement.h"

namespace stbench::advise {

/// The bytes that the table and its states may take. The limits are names for messages.
struct Room {
  std::int64_t memory = 0, device = 0, disk = 0;
  std::string memory_limit, device_limit, disk_limit;
  std::string no_gpu;  ///< what is missing for a GPU; empty if there is one
  int cores = 1;       ///< that the process may use

  [[nodiscard]] bool has_gpu() const { return no_gpu.empty(); }
};

/// The room of this machine within the limits that the user gave.
/// @throws UsageError if the user's limit is above what is free here
Room room_for(const Question& question);

/// The bytes that a choice takes.
struct Bytes {
  std::int64_t memory = 0, device = 0, disk = 0;
  bool operator==(const Bytes&) const = default;
};

/// One way to keep the table (and the states of its optimizer).
struct Choice {
  std::string name;   ///< "hugepage": the placement, and for files what of them is in memory
  std::string where;  ///< in words
  speedtorch::Placement placement = speedtorch::Placement::libtorch;
  /// The order of what they cost: a file, one with a cache of its rows, memory, pinned memory, a GPU's
  /// memory.
  int rank = 0;
  std::vector<std::string> caches;  ///< the states of the caches that it is measured in
  bool compared_only = false;  ///< takes what another of its rank takes and more, so it is not recommended
  Bytes bytes;
  std::int64_t cache_bytes = 0;  ///< for the hot rows of a file; 0: it has no cache
  std::string misfit;            ///< what is too large for what; empty if it fits
  std::string unmeasured;        ///< why it cannot be measured here; empty if it can
};

/// All choices, the cheapest first.
std::vector<Choice> choices_for(const Question& question, const Room& room);

/// Bytes of the cache for a table of which not all rows are measured: the same part of it.
std::int64_t measured_cache_bytes(const Question& question, const Choice& choice);

/// Rows of the table that is measured. A large table is measured by a part of it that is far larger than
/// caches, with whole rows, because to make all of it takes minutes. A trace names rows of the whole table.
std::int64_t measured_rows(const Question& question);

/// One measurement: the options of a run.
using RunWords = std::vector<std::string>;

/// The runs that decide between the choices. Each is one process.
/// @param choices those that fit and can be measured here are
std::vector<RunWords> runs_for(const Question& question, const std::vector<Choice>& choices,
                               const Room& room);

}  // namespace stbench::advise

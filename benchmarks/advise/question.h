/// The question to `stbench advise`: the table, its look-ups, the step that they are part of, and the
/// available memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stbench::advise {

struct Question {
  std::string table;  ///< as --table takes it; empty if the table is not in a file
  std::string file;   ///< that has the table, without its folder; empty if there is none
  std::int64_t rows = 0, dim = 0;
  std::string dtype = "float32";
  std::int64_t batch = 0;                ///< rows of a look-up
  std::string distribution = "uniform";  ///< as --distribution takes it; a trace is `file:PATH`
  double step_s = 0;                     ///< of a step without the look-up (and without the update)
  std::optional<std::int64_t> memory, device_memory;  ///< bytes that the table and its states may have
  std::string optimizer;      ///< as the optimizer suite names it; empty: the table is only read
  int states = 0;             ///< tables that the optimizer keeps beside the table
  double time_budget_s = 50;  ///< for all measurements together
  bool json = false, explain = false, dry_run = false;

  [[nodiscard]] bool trains() const { return !optimizer.empty(); }
  [[nodiscard]] bool has_trace() const { return distribution.starts_with("file:"); }
  [[nodiscard]] std::int64_t row_bytes() const;
  /// Of the table without its states.
  [[nodiscard]] std::int64_t table_bytes() const { return rows * row_bytes(); }
};

/// The words of `advise`, for completion.
std::vector<std::string> question_options();

/// Reads the words after `advise`; a trace is read and checked against the rows.
/// @throws UsageError naming the option, the value and what would be right
Question parse_question(const std::vector<std::string>& words);

}  // namespace stbench::advise

/// The user's options, as the command line states them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/suite/comparison_options.h"
#include "benchmarks/suite/expectation.h"

namespace stbench {

/// An axis that was not given is empty: the preset decides.
struct Options {
  std::vector<std::string> suites;

  std::vector<std::string> directions, placements, methods, devices, dtypes, index_dtypes, distributions,
      isas, caches;
  std::vector<std::string> optimizers;     ///< of the suites that step
  std::vector<std::string> peers;          ///< methods beside those of the preset
  std::string table;                       ///< FILE[:NAME] whose rows are the table's
  std::string text;                        ///< path of the text that is trained on
  std::vector<std::int64_t> negatives;     ///< words drawn for each pair
  std::vector<std::string> shapes;         ///< models whose parameters are stepped
  std::vector<std::string> models;         ///< that are trained
  std::vector<std::string> micro_batches;  ///< whether their size is found or fixed
  std::vector<double> clips;               ///< norms that gradients are clipped to; 0: they are not
  std::vector<std::int64_t> rows, dims, row_bytes, batches, cores, callers;

  std::map<std::string, std::vector<std::string>> own;  ///< of options that a suite keeps by itself

  std::string preset = "standard";
  std::vector<std::string> workloads;  ///< their axes stand for those that were not given
  std::string filter;                  ///< regular expression on the case ID
  std::string case_id;                 ///< one case, with what it is judged against
  std::uint64_t seed = 1;
  std::optional<int> samples;
  int warmup = 1;
  double timeout_s = 120;          ///< for one step of one case; 0 = none
  double time_budget_s = 0;        ///< for the whole run; 0 = any
  std::string verify = "sampled";  ///< "first", "sampled" or "every": which samples are checked
  bool dry_run = false;

  std::string csv, json;      ///< report paths; "-" is stdout
  std::string events, trace;  ///< the same: cases as they finish, and what was done when
  std::vector<Expectation> expectations;
  std::string color = "auto";
  bool quiet = false;  ///< only the conclusion and errors
  std::string benchmark_out, benchmark_out_format = "json";
  std::vector<std::string> argv;  ///< as given, paths as base names

  std::string baseline, save_baseline;       ///< names, of what to compare with and to save as
  std::optional<int> processes;              ///< to measure in, one after the other
  ComparisonOptions comparison;              ///< with --baseline, and where the baselines are
  std::vector<std::string> measuring_words;  ///< as given, without the command
};

}  // namespace stbench

/// The words of `history`: reports or folders of them, and options.
#include <fmt/format.h>

#include "benchmarks/program/command_line.h"
#include "benchmarks/program/compare.h"
#include "benchmarks/program/option_table.h"
#include "harness/errors.h"
#include "harness/suggest.h"

namespace stbench {

Execute parse_history(const std::vector<std::string>& words) {
  Options options;
  auto files = words;
  parse_options(files, options, option_rule::of_history);
  for (const auto& word : files) {
    if (!word.starts_with("-")) continue;
    const auto name = word.substr(0, word.find('='));
    throw UsageError(fmt::format("history has no option {}{}\nstbench --help lists all", name,
                                 harness::did_you_mean(name, option_names(option_rule::of_history))));
  }
  if (files.empty())
    throw UsageError(
        "history needs reports: stbench history REPORT... (files written by --json or --csv, or folders of "
        "them)");
  return [=] { return show_history(files, options); };
}

}  // namespace stbench

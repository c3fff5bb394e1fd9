/// The fuzz target of the command line, a word a line: any words give a command or a UsageError of few lines.
/// Nothing is run.
#include <string>
#include <vector>

#include "benchmarks/program/command_line.h"
#include "harness/errors.h"
#include "tests/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stbench;
  std::vector<std::string> words;
  for (auto text = test::text_of(data, size); !text.empty();) words.emplace_back(test::taken(text, "\n"));
  try {
    const auto command = parse_command_line(words);
    if (command.measures) {
      test::require(!command.options.suites.empty(), "a run has a suite");
      test::require(command.options.timeout_s >= 0, "a limit of time is none below zero");
      for (const auto rows : command.options.rows) test::require(rows >= 0, "a count is none below zero");
    }
  } catch (const UsageError& error) {
    test::check_message(error.what(), 3);
  }
  return 0;
}

/// An option of the command line. Parsing, help, man page, completion and refusals follow from its
/// OptionSpec.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/suite/options.h"

namespace stbench {

/// Sections of the help, in its order.
enum class OptionGroup { what, axes, single_suites, effort, output, comparing, program, google_benchmark };

/// Rules of an option: where it is accepted (elsewhere it is refused), and how the help shows it.
namespace option_rule {
inline constexpr unsigned of_suites = 1;       ///< goes with the suites that take it (suite.h)
inline constexpr unsigned chooses_cases = 2;   ///< excluded by --case, which names one case with all its axes
inline constexpr unsigned one_process = 4;     ///< excluded by several processes
inline constexpr unsigned compares = 8;        ///< goes with compare, or with --baseline
inline constexpr unsigned not_measured = 16;   ///< of the process that starts the processes which measure
inline constexpr unsigned of_compare = 32;     ///< the command compare takes it, too
inline constexpr unsigned repeatable = 64;     ///< may be given several times
inline constexpr unsigned rare = 128;          ///< not on the one screen of -h
inline constexpr unsigned compare_only = 512;  ///< of the command compare and no other
inline constexpr unsigned of_history = 1024;   ///< the command history takes it, too
inline constexpr unsigned joined = 256;        ///< stands on the line of the option before it
}  // namespace option_rule

struct OptionSpec {
  using Names = std::vector<std::string>;
  using Values = std::function<Names()>;
  /// Reads the text of the value (of a flag, empty) into the options. @throws UsageError
  using Reader = std::function<void(Options&, const std::string& text, const OptionSpec&)>;

  /// @param usage name and value as the help shows them, "--rows LIST"; a flag has no value
  /// @param values all that it takes, if they are few and known
  OptionSpec(OptionGroup group, unsigned rules, const std::string& usage, std::string brief, Reader read,
             Values values = {});

  OptionGroup group;
  unsigned rules;     ///< of option_rule
  std::string name;   ///< "--rows"
  std::string value;  ///< "LIST", or empty
  std::string brief;  ///< a few words
  Reader read;
  Values values;
  std::string more;  ///< for --help; empty: what help_texts.txt says

  [[nodiscard]] bool has(unsigned rule) const { return (rules & rule) != 0; }
  [[nodiscard]] bool takes_list() const { return value == "LIST"; }
  [[nodiscard]] bool takes_file() const { return value == "FILE" || value == "DIR"; }
};

/// Readers. @throws UsageError
namespace option_reader {
using Reader = OptionSpec::Reader;
Reader names(OptionSpec::Names Options::*field);  ///< of the option's values
Reader texts(OptionSpec::Names Options::*field);  ///< a comma list whose items are checked later
Reader counts(std::vector<std::int64_t> Options::*field);
Reader text(std::string Options::*field);  ///< anything but nothing
Reader one_of_values(std::string Options::*field);
/// Names, of the values if there are any, are kept in Options::own under the option's name.
void own(Options& options, const std::string& text, const OptionSpec& spec);
}  // namespace option_reader

/// One object for each option of a suite, in the suite's file. --help shows it among those of suites.
struct RegisterOption {
  RegisterOption(const std::string& usage, std::string brief, OptionSpec::Reader read = option_reader::own,
                 OptionSpec::Values values = {}, std::string more = {},
                 unsigned rules = option_rule::chooses_cases);
};

/// The options that suites registered, by name.
const std::vector<OptionSpec>& options_of_suites();

}  // namespace stbench

/// The one table of the options, for what is made from it: the man page and the shells' completions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stbench {

struct Option {
  std::string name;   ///< "--suite"
  std::string value;  ///< what stands for its value, "LIST", or empty where it takes none
  std::string_view brief, more;
  std::vector<std::string> values;  ///< all that it takes, where they are few and known

  [[nodiscard]] bool takes_list() const { return value == "LIST"; }
  [[nodiscard]] bool takes_file() const { return value == "FILE" || value == "DIR"; }
};

struct OptionSection {
  std::string_view title;
  std::vector<Option> options;
};

/// The options of a run, in the order of the help; Google Benchmark's last.
const std::vector<OptionSection>& option_table();

/// The values that an option takes where they are few and known; else none (command_line.cpp).
std::vector<std::string> option_values(const std::string& option);

}  // namespace stbench

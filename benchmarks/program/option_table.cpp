#include "benchmarks/program/option_table.h"

#include <sstream>

#include "benchmarks/program/help.h"

namespace stbench {
namespace {

/// The options of one entry of the help: "--samples, --warmup N" are two of the same value.
std::vector<Option> options_of(const OptionHelp& help) {
  std::vector<Option> options;
  std::istringstream words{std::string(help.option)};
  for (std::string word; words >> word;) {
    const bool last_of_its_kind = !word.ends_with(',');
    if (!last_of_its_kind) word.pop_back();
    if (word.starts_with("-")) {
      options.push_back({word, "", help.brief, help.more, option_values(word)});
      continue;
    }
    for (auto option = options.rbegin(); option != options.rend() && option->value.empty(); ++option)
      option->value = word;
  }
  return options;
}

}  // namespace

const std::vector<OptionSection>& option_table() {
  static const std::vector<OptionSection> table = [] {
    std::vector<OptionSection> sections;
    for (const auto& group : option_groups()) {
      sections.push_back({group.title, {}});
      for (const auto& help : group.options) {
        const auto options = options_of(help);
        sections.back().options.insert(sections.back().options.end(), options.begin(), options.end());
      }
    }
    return sections;
  }();
  return table;
}

}  // namespace stbench

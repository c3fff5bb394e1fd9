/// Parses an optimizer's options for the programs that Python tests drive.
#pragma once

#include <concepts>
#include <cstddef>
#include <istream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "speedtorch/optim/option_fields.h"

namespace speedtorch {

/// Reads "name=number ..." up to the end of the stream, or to the word `until`.
inline std::map<std::string, double> read_options(std::istream& words, const std::string& until = {}) {
  std::map<std::string, double> given;
  for (std::string word; words >> word && word != until;) {
    const auto equals = word.find('=');
    given[word.substr(0, equals)] = std::stod(word.substr(equals + 1));
  }
  return given;
}

/// @throws std::invalid_argument for a word that is not an option of the optimizer
template <class Options>
Options options_from(std::map<std::string, double> given) {
  Options options;
  for_each_option(options, [&](const char* name, auto& value) {
    const auto found = given.find(name);
    if (found == given.end()) return;
    if constexpr (std::same_as<decltype(value), bool&>)
      value = found->second != 0;
    else
      value = found->second;
    given.erase(found);
  });
  if (!given.empty()) throw std::invalid_argument("no option " + given.begin()->first);
  return options;
}

template <std::size_t kFirst = 0>
UpdateOptions named_options(const std::string& name, const std::map<std::string, double>& given) {
  if constexpr (kFirst == std::variant_size_v<UpdateOptions>) {
    throw std::invalid_argument("no optimizer " + name);
  } else {
    using Options = std::variant_alternative_t<kFirst, UpdateOptions>;
    if (name == optimizer_name<Options>()) return options_from<Options>(given);
    return named_options<kFirst + 1>(name, given);
  }
}

}  // namespace speedtorch

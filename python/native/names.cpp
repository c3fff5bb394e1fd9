#include <algorithm>
#include <utility>
#include <variant>

#include "python/native/bindings.h"
#include "speedtorch/error.h"
#include "speedtorch/optim/option_fields.h"

namespace speedtorch::python {
namespace {

/// The options of each optimizer with their defaults.
std::vector<UpdateOptions> all_options() {
  return []<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::vector<UpdateOptions>{std::variant_alternative_t<kIndex, UpdateOptions>{}...};
  }
  (std::make_index_sequence<std::variant_size_v<UpdateOptions>>{});
}

std::string name_of(const UpdateOptions& options) {
  return std::visit([]<class Options>(const Options&) { return optimizer_name<Options>(); }, options);
}

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

UpdateOptions defaults_of(std::string_view optimizer) {
  for (const auto& options : all_options())
    if (name_of(options) == optimizer) return options;
  throw OptimizerError("no optimizer is called '" + std::string(optimizer) +
                       "'; there are: " + listed(optimizer_names()));
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& options : all_options()) names.push_back(name_of(options));
  return names;
}

std::vector<std::string> option_names(std::string_view optimizer) {
  std::vector<std::string> names;
  std::visit(
      [&](const auto& options) {
        for_each_option(options, [&](const char* name, const auto&) { names.emplace_back(name); });
      },
      defaults_of(optimizer));
  return names;
}

UpdateOptions options_of(std::string_view optimizer, const std::vector<double>& values) {
  auto options = defaults_of(optimizer);
  std::size_t taken = 0;
  std::visit(
      [&](auto& fields) {
        for_each_option(fields, [&]<class T>(const char*, T& value) {
          if (taken < values.size()) value = static_cast<T>(values[taken]);
          ++taken;
        });
      },
      options);
  if (taken != values.size()) {
    throw OptionError(std::string(optimizer) + " has " + std::to_string(taken) + " options (" +
                      listed(option_names(optimizer)) + "); " + std::to_string(values.size()) +
                      " were given");
  }
  check_options(options);
  return options;
}

std::vector<std::string> duplicate_policies() { return {"none", "reject", "last", "accumulate"}; }

Duplicates duplicates_of(std::string_view name) {
  const auto names = duplicate_policies();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw OptionError("duplicates is '" + std::string(name) + "'; choose " + listed(names));
  return static_cast<Duplicates>(found - names.begin());
}

}  // namespace speedtorch::python

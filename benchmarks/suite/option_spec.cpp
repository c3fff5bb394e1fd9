#include "benchmarks/suite/option_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/registry.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "harness/suggest.h"

namespace stbench {
namespace {

using Names = OptionSpec::Names;

Names parsed_texts(const std::string& text, const OptionSpec& spec) {
  const auto items = harness::split_list(text, spec.name);
  return {items.begin(), items.end()};
}

Names parsed_names(const std::string& text, const OptionSpec& spec) {
  return harness::parse_names(text, spec.name, spec.values());
}

std::vector<std::int64_t> parsed_counts(const std::string& text, const OptionSpec& spec) {
  return harness::parse_counts(text, spec.name);
}

std::string parsed_text(const std::string& text, const OptionSpec& spec) {
  if (text.empty()) throw UsageError(fmt::format("{}: the value is empty", spec.name));
  return text;
}

std::string parsed_name(const std::string& text, const OptionSpec& spec) {
  require_known(text, spec.name, spec.values());
  return text;
}

/// Parses the text by `parse` into the field.
template <class T>
OptionSpec::Reader into(T Options::*field, T (*parse)(const std::string&, const OptionSpec&)) {
  return [=](Options& options, const std::string& text, const OptionSpec& spec) {
    options.*field = parse(text, spec);
  };
}

}  // namespace

namespace option_reader {

Reader names(Names Options::*field) { return into(field, parsed_names); }
Reader texts(Names Options::*field) { return into(field, parsed_texts); }
Reader counts(std::vector<std::int64_t> Options::*field) { return into(field, parsed_counts); }
Reader text(std::string Options::*field) { return into(field, parsed_text); }
Reader one_of_values(std::string Options::*field) { return into(field, parsed_name); }
void own(Options& options, const std::string& text, const OptionSpec& spec) {
  options.own[spec.name] = spec.values ? parsed_names(text, spec) : parsed_texts(text, spec);
}

}  // namespace option_reader

OptionSpec::OptionSpec(OptionGroup group_, unsigned rules_, const std::string& usage, std::string brief_,
                       Reader read_, Values values_)
    : group(group_),
      rules(rules_),
      name(usage.substr(0, usage.find(' '))),
      value(usage.substr(std::min(usage.size(), name.size() + 1))),
      brief(std::move(brief_)),
      read(std::move(read_)),
      values(std::move(values_)) {}

const std::vector<OptionSpec>& options_of_suites() { return registered<OptionSpec>(); }

RegisterOption::RegisterOption(const std::string& usage, std::string brief, OptionSpec::Reader read,
                               OptionSpec::Values values, std::string more, unsigned rules) {
  OptionSpec spec(OptionGroup::single_suites, rules | option_rule::of_suites, usage, std::move(brief),
                  std::move(read), std::move(values));
  spec.more = std::move(more);
  add_by_name(std::move(spec));
}

}  // namespace stbench

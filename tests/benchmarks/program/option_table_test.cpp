#include "benchmarks/program/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "benchmarks/program/command_line.h"
#include "benchmarks/suite/closed_axes.h"
#include "benchmarks/suite/suite.h"
#include "harness/errors.h"
#include "tests/paths.h"

namespace stbench {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

const RegisterOption planted{"--planted LIST", "of no suite"};
const RegisterOption planted_of_two{"--planted-of-two LIST", "of no suite", option_reader::own, [] {
                                      return Words{"one", "two"};
                                    }};

/// Options that change how a run measures, and nothing of its plan.
const std::set<std::string> of_effort{"--samples", "--warmup", "--verify"};
/// Of the sentences, which a plan does not have yet: tested with the program.
const std::set<std::string> of_sentences{"--filter", "--benchmark_filter"};

/// A value of the option that the suite's standard preset does not have as it is.
std::string unusual_value(const std::string& option, const Suite& suite) {
  if (option == "--method") return suite.methods().front().name;
  if (option == "--peers") {
    for (const auto& method : suite.methods()) {
      if (method.peer) return method.name;
    }
    return "mmap";
  }
  if (option == "--cores" && suite.name == "sharded") return "2";  // its own is 1
  static const std::map<std::string, std::string> values{
      {"--direction", "from"},
      {"--placement", "mapped"},
      {"--device", "cuda:99"},
      {"--rows", "1000"},
      {"--dim", "24"},
      {"--row-bytes", "96"},
      {"--batch", "77"},
      {"--dtype", "float16"},
      {"--index-dtype", "int32"},
      {"--distribution", "sequential"},
      {"--cores", "1"},
      {"--callers", "2"},
      {"--cache", "cold"},
      {"--cache-bytes", "64k"},
      {"--isa", closed_axes::isas().back()},
      {"--workload", "kv-page"},
      {"--optimizer", "Adamax"},
      {"--shape", "gpt2-small"},
      {"--clip", "0.5"},
      {"--model", "mlp"},
      {"--text", stbench::test::source_folder() + "/CHANGELOG.md"},
      {"--table", stbench::test::source_folder() + "/tests/corpus/npy/version-1"},
      {"--engine", "shared"},
      {"--remote", "0.5"},
      {"--planted", "word"},
      {"--samples", "7"},
      {"--warmup", "3"},
      {"--verify", "every"}};
  if (const auto found = values.find(option); found != values.end()) return found->second;
  const auto* spec = option_named(option);
  return spec->values ? spec->values().back() : "3";
}

/// On a machine with two cores.
std::string planned(const Words& words) {
  const auto command = parse_command_line(words);
  const auto& options = command.options;
  auto machine = harness::read_machine();
  machine.allowed_cores = 2;
  std::string text;
  for (const auto& name : options.suites) {
    const auto plan = suite_named(name).plan(options, machine);
    for (const auto& group : plan.groups) {
      for (const auto& id : group->cases) text += case_id_of(id) + "\n";
    }
    for (const auto& record : plan.waived) text += case_id_of(record.id) + ": " + record.reason + "\n";
  }
  return text;
}

/// The message of the refusal; empty if there is none.
std::string refusal_of(const Words& words, std::string& plan) {
  try {
    plan = planned(words);
    return {};
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(OptionTable, EveryOptionWithEverySuiteChangesThePlanOrIsRefused) {
  for (const auto& suite : suites()) {
    const auto standard = planned({"--suite", suite.name});
    for (const auto& spec : option_table()) {
      const bool tested = spec.has(option_rule::of_suites | option_rule::chooses_cases);
      if (!tested || of_effort.contains(spec.name) || of_sentences.contains(spec.name)) continue;
      const auto value = unusual_value(spec.name, suite);
      std::string plan;
      const auto refusal = refusal_of({"--suite", suite.name, spec.name, value}, plan);
      if (refusal.empty()) {
        EXPECT_NE(plan, standard) << "--suite " << suite.name << " ignores " << spec.name << " " << value;
        EXPECT_TRUE(takes(suite, spec.name)) << suite.name << " " << spec.name;
      }
    }
  }
}

TEST(OptionTable, WhatASuiteDoesNotListIsRefusedWithTheSuitesThatDo) {
  for (const auto& suite : suites()) {
    for (const auto& spec : option_table()) {
      if (!spec.has(option_rule::of_suites) || takes(suite, spec.name)) continue;
      std::string plan;
      EXPECT_THAT(refusal_of({"--suite", suite.name, spec.name, unusual_value(spec.name, suite)}, plan),
                  HasSubstr(spec.name + " has no meaning for --suite " + suite.name + "; it goes with "));
    }
  }
}

TEST(OptionTable, AnOptionIsTakenIfOneOfTheSuitesTakesIt) {
  EXPECT_NO_THROW(parse_command_line({"--suite", "transfer,memory", "--batch", "77"}));
  std::string plan;
  EXPECT_THAT(
      refusal_of({"--suite", "contiguous", "--cache", "cold", "--batch", "77", "--dtype", "float16"}, plan),
      HasSubstr("has no meaning for --suite contiguous"));
}

TEST(OptionTable, MethodsPeersAndPresetsOfOtherSuitesAreRefused) {
  std::string plan;
  EXPECT_THAT(refusal_of({"--suite", "transfer", "--method", "sparse_rows"}, plan),
              HasSubstr("--method sparse_rows is no method of --suite transfer; it goes with optimizer"));
  EXPECT_THAT(refusal_of({"--suite", "optimizer", "--peers", "mmap"}, plan),
              HasSubstr("--peers mmap is no peer of --suite optimizer; it goes with transfer"));
  EXPECT_THAT(
      refusal_of({"--suite", "memory", "--preset", "kernels"}, plan),
      HasSubstr("--suite memory has no preset kernels; use quick, standard, full\n--suite transfer has it"));
}

TEST(OptionTable, HasOnlyValuesThatTheOptionTakes) {
  std::size_t tested = 0;
  for (const auto& spec : option_table()) {
    if (!spec.values || spec.name.starts_with("--planted")) continue;
    for (const auto& value : spec.values()) {
      Options options;
      EXPECT_NO_THROW(spec.read(options, value, spec)) << spec.name << " " << value;
    }
    ++tested;
  }
  EXPECT_GT(tested, 10U);
}

TEST(OptionTable, OptionsWithoutAReaderKeepTheirNames) {
  Words words{"--planted=a,b", "--planted-of-two", "two", "word"};
  Options options;
  const auto given = parse_options(words, options);
  EXPECT_EQ(options.own.at("--planted"), (Words{"a", "b"}));
  EXPECT_EQ(options.own.at("--planted-of-two"), Words{"two"});
  EXPECT_EQ(words, Words{"word"});
  EXPECT_EQ(given.size(), 2U);
  words = {"--planted-of-two", "three"};
  EXPECT_THROW(parse_options(words, options), UsageError);
}

TEST(OptionTable, WhatOnlyAComparisonOrAFormatNeedsIsRefusedWithout) {
  for (const Words& more : {Words{"--all"}, Words{"--effect", "3%"}, Words{"--baselines", "b"},
                            Words{"--benchmark_out_format", "csv"}}) {
    Words words{"--suite", "transfer"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_THROW(parse_command_line(words), UsageError) << more.front();
  }
}

}  // namespace
}  // namespace stbench

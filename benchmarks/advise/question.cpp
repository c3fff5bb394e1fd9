#include "benchmarks/advise/question.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>

#include "benchmarks/steps/reference_step.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/closed_axes.h"
#include "benchmarks/tables/row_shape.h"
#include "harness/distribution.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "harness/suggest.h"
#include "reports/number.h"
#include "speedtorch/files/mapped_file.h"
#include "speedtorch/optim/state.h"

namespace stbench::advise {
namespace {

using Names = std::vector<std::string>;
using Texts = std::map<std::string, std::string>;  ///< options that were given, with their texts

const Names valued{"--table", "--rows",    "--dim",    "--dtype",         "--batch",   "--distribution",
                   "--trace", "--step-ms", "--memory", "--device-memory", "--updates", "--time-budget"};
const Names flags{"--json", "--explain", "--dry-run"};

/// Options and their texts; a flag has an empty one. @throws UsageError
Texts texts_of(const Names& words) {
  Texts texts;
  CLI::App app("stbench advise");
  app.set_help_flag();
  app.allow_extras();
  for (const auto& name : valued)
    app.add_option_function<std::string>(name,
                                         [&texts, name](const std::string& text) { texts[name] = text; })
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  for (const auto& name : flags)
    app.add_flag_callback(name, [&texts, name] { texts[name] = ""; })->disable_flag_override();
  try {
    app.parse(Names(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("advise: {}\nstbench --help explains advise", error.what()));
  }
  if (const auto extras = app.remaining(); !extras.empty()) {
    const auto name = extras.front().substr(0, extras.front().find('='));
    throw UsageError(fmt::format("advise has no option {}{}\nadvise takes {}", name,
                                 harness::did_you_mean(name, question_options()),
                                 fmt::join(question_options(), ", ")));
  }
  return texts;
}

const std::string& required(const Texts& texts, const std::string& name, const char* what) {
  const auto found = texts.find(name);
  if (found != texts.end()) return found->second;
  throw UsageError(
      fmt::format("advise needs {}: {}\nas in: stbench advise --rows 10M --dim 128 --batch 4096 --step-ms 20",
                  name, what));
}

std::int64_t positive(const Texts& texts, const std::string& name, const char* what) {
  const auto value = harness::parse_count(required(texts, name, what), name);
  require_positive({{name.c_str(), value}});
  return value;
}

std::optional<std::int64_t> bytes_given(const Texts& texts, const std::string& name) {
  if (!texts.contains(name)) return std::nullopt;
  return positive(texts, name, "");
}

double step_seconds(const Texts& texts) {
  const auto& text = required(texts, "--step-ms", "milliseconds of a step without the look-up");
  const auto value = reports::real_from(text);
  constexpr double most_ms = 1e9;
  if (value && *value > 0 && *value <= most_ms) return *value / 1e3;
  throw UsageError(
      fmt::format("--step-ms '{}': milliseconds of a step without the look-up, above 0, as in 12.5", text));
}

double budget_seconds(const std::string& text) {
  constexpr double least = 4;
  const double value = harness::parse_seconds(text, "--time-budget");
  if (value >= least) return value;
  throw UsageError(fmt::format("--time-budget {}: rows of a file need {} s or more, as in 40s", text, least));
}

std::string one_of(const std::string& given, const char* option, const Names& known) {
  return harness::parse_names(given, option, known).front();
}

/// The array of a file; its bytes are not read.
at::Tensor array_of(const std::string& path) {
  try {
    return speedtorch::MappedFile::open(path, speedtorch::Access::read_only)->array();
  } catch (const std::runtime_error& error) {  // FileError, and what the format's reader throws
    throw UsageError(fmt::format("--table: {}", error.what()));
  }
}

/// Takes the shape from the file of --table. Rows of a type that the suites lack are moved as bytes.
void read_shape(Question& question, const Texts& texts) {
  for (const auto* option : {"--rows", "--dim", "--dtype"}) {
    if (texts.contains(option))
      throw UsageError(fmt::format("--table and {} exclude each other: the file has the shape", option));
  }
  const auto& path = texts.at("--table");
  const auto array = array_of(path);
  question.table = path, question.file = std::filesystem::path(path).filename().string();
  if (array.dim() == 0 || array.numel() == 0)
    throw UsageError(fmt::format("--table {}: the array has no rows; a table is [rows, ...]", question.file));
  question.rows = array.size(0);
  question.dim = array.numel() / question.rows;
  const auto name = dtype_name(array.scalar_type());
  if (contains(closed_axes::dtypes(), name)) {
    question.dtype = name;
  } else {
    question.dtype = "int8";
    question.dim *= array.element_size();
  }
}

/// The suite's name of the optimizer, in whatever case it is given.
std::string optimizer_named_by(const std::string& given) {
  const auto lower = [](std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  const auto known = optimizer_names();
  const auto found =
      std::ranges::find_if(known, [&](const std::string& name) { return lower(name) == lower(given); });
  if (found == known.end()) throw UsageError(harness::unknown_name(given, "--updates", known));
  return *found;
}

std::string distribution_of(const Texts& texts) {
  const bool trace = texts.contains("--trace"), drawn = texts.contains("--distribution");
  if (trace && drawn)
    throw UsageError("--trace and --distribution exclude each other: both say which rows a look-up names");
  if (trace) return "file:" + texts.at("--trace");
  return drawn ? texts.at("--distribution") : "uniform";
}

void require_table(const Question& question) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(question.rows, question.dim, &bytes) ||
      __builtin_mul_overflow(bytes, question.row_bytes() / question.dim * (1 + question.states), &bytes))
    throw UsageError(fmt::format("--rows {} and --dim {}: such a table has more than 2^63 bytes; use fewer",
                                 question.rows, question.dim));
  if (question.trains() && question.dtype != "float32")
    throw UsageError(fmt::format("--updates {} with --dtype {}: tables that train are measured in float32",
                                 question.optimizer, question.dtype));
  const harness::IndexSource indices(harness::parse_distribution(
      question.distribution, question.has_trace() ? "--trace" : "--distribution"));
  indices.require(question.rows, question.batch);
}

}  // namespace

std::int64_t Question::row_bytes() const { return row_shape(dtype_named(dtype), rows, dim).row_bytes(); }

std::vector<std::string> question_options() {
  auto all = valued;
  all.insert(all.end(), flags.begin(), flags.end());
  return all;
}

Question parse_question(const std::vector<std::string>& words) {
  const auto texts = texts_of(words);
  Question question;
  if (texts.contains("--table")) {
    read_shape(question, texts);
  } else {
    question.rows = positive(texts, "--rows", "the rows of the table, or --table FILE");
    question.dim = positive(texts, "--dim", "the elements of a row");
    if (texts.contains("--dtype"))
      question.dtype = one_of(texts.at("--dtype"), "--dtype", closed_axes::dtypes());
  }
  question.batch = positive(texts, "--batch", "the rows of a look-up");
  question.step_s = step_seconds(texts);
  question.distribution = distribution_of(texts);
  question.memory = bytes_given(texts, "--memory");
  question.device_memory = bytes_given(texts, "--device-memory");
  if (texts.contains("--updates")) {
    question.optimizer = optimizer_named_by(texts.at("--updates"));
    question.states = static_cast<int>(speedtorch::state_names(optimizer_named(question.optimizer)).size());
  }
  if (texts.contains("--time-budget")) question.time_budget_s = budget_seconds(texts.at("--time-budget"));
  question.json = texts.contains("--json"), question.explain = texts.contains("--explain");
  question.dry_run = texts.contains("--dry-run");
  if (question.json + question.explain + question.dry_run > 1)
    throw UsageError("advise: --json, --explain and --dry-run exclude each other: --json has all rows");
  require_table(question);
  return question;
}

}  // namespace stbench::advise

/// `stbench show REPORT`: a saved report as the run printed it, or as Markdown, or some of its rows and
/// columns as a list.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "benchmarks/program/commands.h"
#include "benchmarks/program/screen.h"
#include "benchmarks/suite/expectation.h"
#include "benchmarks/suite/suite.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "harness/pattern.h"
#include "harness/suggest.h"
#include "reports/files/file.h"
#include "reports/standard_output.h"
#include "reports/tables/listing.h"

namespace stbench {
namespace {

struct ShowOptions {
  std::string report, color = "auto", columns, sort, filter, markdown;
};

/// The names of a comma list, each a column of the report.
std::vector<std::string> columns_of(const reports::Report& report, const std::string& text,
                                    const char* option) {
  const auto known = reports::listed_columns(report);
  const auto items = harness::split_list(text, option);
  for (const auto item : items) {
    if (std::ranges::find(known, item) == known.end())
      throw UsageError(harness::unknown_name(item, option, known));
  }
  return {items.begin(), items.end()};
}

void keep_matching(reports::Report& report, const std::string& filter) {
  const harness::Pattern pattern(filter, "--filter");
  std::erase_if(report.records, [&](const auto& record) { return !pattern.is_in(case_id_of(record.id)); });
  if (report.records.empty())
    throw UsageError(
        fmt::format("--filter '{}' matches no row of the report", harness::shown_pattern(filter)));
}

void require_valid(const ShowOptions& options) {
  const harness::Pattern compiled(options.filter, "--filter");
  const std::vector<std::string> colors{"auto", "always", "never"};
  if (std::ranges::find(colors, options.color) == colors.end())
    throw UsageError(harness::unknown_name(options.color, "--color", colors));
}

int print(const ShowOptions& options) {
  auto report = reports::read_report(options.report);
  if (!options.filter.empty()) keep_matching(report, options.filter);
  if (!options.markdown.empty()) {
    reports::claimed(options.markdown)->write(markdown_of(report));
    return 0;
  }
  const auto style = style_for(options.color);
  if (options.columns.empty() && options.sort.empty()) {
    reports::write_standard_output(machine_line(report, style) + screen_text(report, style));
    return 0;
  }
  if (!options.sort.empty()) {
    const bool down = options.sort.starts_with('-');
    const auto by = columns_of(report, options.sort.substr(down ? 1 : 0), "--sort");
    reports::sort_by(report, by.front(), down, case_id_of);
  }
  const auto columns =
      options.columns.empty() ? reports::usual_columns() : columns_of(report, options.columns, "--columns");
  reports::write_standard_output(reports::listing(report, columns, style, case_id_of));
  return 0;
}

}  // namespace

Execute parse_show(const std::vector<std::string>& words) {
  ShowOptions options;
  CLI::App app("stbench show");
  app.set_help_flag();
  app.allow_extras();
  app.add_option("report", options.report);
  app.add_option("--color", options.color);
  app.add_option("--columns", options.columns);
  app.add_option("--sort", options.sort);
  app.add_option("--filter", options.filter);
  app.add_option("--markdown", options.markdown);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("show: {}\nstbench --help explains each option", error.what()));
  }
  if (const auto extras = app.remaining(); !extras.empty()) {
    const bool option = extras.front().starts_with("-");
    throw UsageError(fmt::format(
        "show takes no {}'{}'{}; it takes a report, --columns, --sort, --filter, --markdown, --color",
        option ? "" : "second report ", extras.front(), option ? ": it measures nothing" : ""));
  }
  if (options.report.empty())
    throw UsageError(
        "show needs a report: stbench show REPORT (a file written by --json, --csv or --events)");
  if (!options.markdown.empty() && !(options.columns.empty() && options.sort.empty()))
    throw UsageError("show: --markdown writes the tables; leave out --columns and --sort");
  require_valid(options);
  return [options] { return print(options); };
}

}  // namespace stbench

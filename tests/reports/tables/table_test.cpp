#include "reports/tables/table.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "reports/group.h"
#include "reports/statistics/statistics.h"
#include "reports/tables/answer.h"
#include "reports/tables/time_unit.h"
#include "tests/reports/random_report.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/suites.h"

namespace stbench::reports {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t line_with(const std::vector<std::string>& lines, const std::string& part, std::size_t from = 0) {
  for (std::size_t i = from; i < lines.size(); ++i) {
    if (lines[i].find(part) != std::string::npos) return i;
  }
  ADD_FAILURE() << "no line with \"" << part << "\"";
  return 0;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void expect_screen(const Report& report) {
  for (const std::size_t width : {40U, 60U, 80U, 100U, 120U, 160U}) {
    const Style style{false, width, false};
    for (const std::string& line :
         lines_of(render_tables(report, style, tables_of) + answer(report, style))) {
      EXPECT_LE(display_width(line), width) << line;
      EXPECT_FALSE(line.ends_with(' ')) << '"' << line << '"';
    }
  }
  EXPECT_EQ(without_colour(render_tables(report, Style::colour, tables_of)),
            render_tables(report, Style::plain, tables_of));
}

TEST(Table, KeyLinesOfTheSample) {
  const std::string screen = render_tables(sample_report(), Style::plain, tables_of);
  for (const std::string line : {
           "to: table rows into the model tensor (cpu)\n"
           "  131,072 of 1,000,000 × 128 float32 rows (67.1 MB), unique int64 indices\n"
           "  who                        ms      ±  GB/s  of ceiling  against LibTorch  verified rows\n"
           "  1 core\n",
           "  speedtorch(hugepage)    2.000  ±4.0%  33.6         62%  1.2× faster             131,072\n",
           "  index_select(hugepage)  2.500  ±4.0%  26.8         50%  LibTorch's best         131,072\n",
           "  advanced(hugepage)      10.00  ±4.0%  6.71         12%  4.0× slower             131,072\n",
           "  copy(hugepage)          1.250  ±4.0%  53.7        100%  the ceiling             131,072\n",
           "  index_select(libtorch)  ~7.500  ±4.0%",
           "  advanced(libtorch)      WRONG: 12 of 131,072 rows differ\n",
           "  advanced(hugepage)      failed\n",
           "  WRONG advanced(libtorch) 2 cores: row 7 holds row 8\n",
           "  failed advanced(hugepage) 2 cores: no end after 10 s (--timeout)\n",
           "  ~ index_select(libtorch) 2 cores: interval half-width 14% of the median\n",
           "Not measured here:\n  pinned, device on cuda:0: no NVIDIA driver was found; install one to "
           "measure it\n",
       }) {
    EXPECT_TRUE(has(screen, line)) << line << "is not in\n" << screen;
  }
}

TEST(Table, DirectionsBlocksPlacementsAndTimesAreInOrder) {
  const auto lines = lines_of(render_tables(sample_report(), Style::plain, tables_of));
  const std::size_t to = line_with(lines, "to: ");
  const std::size_t one_core = line_with(lines, "1 core", to);
  const std::size_t two_cores = line_with(lines, "2 cores", to);
  const std::size_t from = line_with(lines, "from: ");
  EXPECT_LT(to, one_core);
  EXPECT_LT(one_core, two_cores);
  EXPECT_LT(two_cores, from);
  std::size_t last = two_cores;
  for (const std::string who : {"copy(libtorch)", "speedtorch(libtorch)", "index_select(libtorch)",
                                "advanced(libtorch)", "copy(hugepage)", "speedtorch(hugepage)"}) {
    const std::size_t line = line_with(lines, who, two_cores);
    EXPECT_EQ(line, last + 1) << who;
    last = line;
  }
}

TEST(Table, EveryDirectionHasItsTable) {
  Report report;
  for (const std::string direction : {"round_trip", "sum", "from", "to", "sideways"}) {
    report.records.push_back(measured(direction, "hugepage", "speedtorch", 0.01));
  }
  const auto lines = lines_of(render_tables(report, Style::plain, tables_of));
  const std::size_t sum = line_with(lines, "sum: to and from, their medians added (cpu)");
  EXPECT_LT(line_with(lines, "from: "), sum);
  EXPECT_LT(sum, line_with(lines, "round_trip: "));
  line_with(lines, "sideways (cpu)");
}

TEST(Table, EachTableHasOneTimeUnit) {
  Report report;
  report.records = {measured("to", "hugepage", "speedtorch", 2.0), measured("to", "hugepage", "copy", 0.5),
                    measured("from", "hugepage", "speedtorch", 2e-6)};
  const auto lines = lines_of(render_tables(report, Style::plain, tables_of));
  EXPECT_TRUE(has(lines[line_with(lines, "who")], " ms  ")) << "the unit suits the fastest row";
  EXPECT_TRUE(has(lines[line_with(lines, "copy(hugepage)")], "500.0"));
  EXPECT_TRUE(has(lines[line_with(lines, "speedtorch(hugepage)")], " 2000  "));
  const std::size_t from = line_with(lines, "from: ");
  EXPECT_TRUE(has(lines[line_with(lines, "who", from)], " us  "));
  EXPECT_TRUE(has(lines[line_with(lines, "speedtorch(hugepage)", from)], "2.000"));
}

TEST(Table, TheUnitOfATableSuitsItsFastestRow) {
  const auto unit_of = [](std::vector<double> times) {
    Report report;
    for (const double time : times) {
      report.records.push_back(measured("to", "hugepage", "method", time));
      report.records.back().id.method += std::to_string(report.records.size());
    }
    return time_unit(pointers_to(std::as_const(report.records)));
  };
  EXPECT_EQ(unit_of({3.5, 1}).name, "s");
  EXPECT_EQ(unit_of({30, 0.9}).name, "ms");
  EXPECT_EQ(unit_of({1e-3, 1e-6}).name, "us");
  EXPECT_EQ(unit_of({1e-3, 0.9e-6}).name, "ns");
  EXPECT_EQ(unit_of({1e-12}).name, "ns");
  EXPECT_EQ(unit_of({}).name, "us");
  EXPECT_EQ(unit_of({30, 0.9}).text(30), "30,000");
  EXPECT_EQ(unit_of({30, 0.9}).text(0.9), "900.0");
}

TEST(Table, NarrowScreensLoseTheVerifiedRowsFirstAndWideOnesShowMore) {
  const auto headings = [](std::size_t width) {
    const auto lines = lines_of(render_tables(sample_report(), {false, width, false}, tables_of));
    return lines[line_with(lines, "  who ")];
  };
  EXPECT_TRUE(headings(100).ends_with("  against LibTorch  verified rows"));
  EXPECT_TRUE(headings(80).ends_with("  GB/s  of ceiling  against LibTorch")) << headings(80);
  EXPECT_TRUE(headings(62).ends_with("  ±  GB/s  against LibTorch")) << headings(62);
  EXPECT_TRUE(headings(56).ends_with("  ms  GB/s  against LibTorch")) << headings(56);
  EXPECT_TRUE(headings(40).ends_with("  ms  GB/s")) << headings(40);
  EXPECT_TRUE(headings(120).ends_with("  verified rows    p05    p95  samples")) << headings(120);
}

TEST(Table, AsMarkdownIsTheSameTable) {
  Report report = sample_report();
  report.warnings = {"<b>a|b</b> of @someone"};
  const std::string text = render_tables(report, {false, kScreenWidth, true}, tables_of);
  for (const std::string line :
       {"\n**to: table rows into the model tensor (cpu)**\n\n131,072 of 1,000,000 × 128 float32 rows (67.1 "
        "MB), "
        "unique int64 indices\n\n\n| who | ms | ± | GB/s | of ceiling | against LibTorch | verified rows | "
        "p05 |",
        "\n|---|--:|--:|--:|--:|---|--:|--:|--:|--:|\n| 1 core | ",
        "\n| speedtorch(hugepage) | 2.000 | ±4.0% | 33.6 | 62% | 1.2× faster | 131,072 | ",
        "\n| advanced(libtorch) | WRONG: 12 of 131,072 rows differ |  |",
        "\nWRONG advanced(libtorch) 2 cores: row 7 holds row 8\n\n",
        "\nwarning: \\<b\\>a\\|b\\</b\\> of (at)someone\n\n"}) {
    EXPECT_TRUE(has("\n" + text, line)) << line << "\nis not in\n" << text;
  }
  for (const std::string& line : lines_of(text)) {
    EXPECT_EQ(line.starts_with("|"), line.ends_with("|")) << line;
  }
}

TEST(Table, OtherWorkloadsAreNamedAndApart) {
  Report report;
  report.records = {measured("to", "hugepage", "speedtorch", 0.01),
                    measured("to", "hugepage", "speedtorch", 0.02)};
  report.records[1].id.axes[0].second = "cold";
  report.records[1].id.dtype = "bytes";
  report.records[1].id.dim = 4096;
  const std::string screen = render_tables(report, Style::plain, tables_of);
  EXPECT_TRUE(has(screen, "× 128 float32 rows (67.1 MB), unique int64 indices\n")) << screen;
  EXPECT_TRUE(
      has(screen, "131,072 of 1,000,000 rows of 4,096 bytes (67.1 MB), unique int64 indices, cache=cold\n"))
      << screen;
}

TEST(Table, UnstableReasonsAreGroupedAndFew) {
  Report report;
  for (int i = 0; i < 9; ++i) {
    report.records.push_back(measured("to", "hugepage", "method" + std::to_string(i), 0.01));
    report.records.back().status = Status::unstable;
    report.records.back().reason = i < 3 ? "the same" : "reason " + std::to_string(i);
  }
  const std::string screen = render_tables(report, Style::plain, tables_of);
  EXPECT_TRUE(
      has(screen,
          "  ~ method0(hugepage) 2 cores, method1(hugepage) 2 cores, method2(hugepage) 2 cores: the same\n"))
      << screen;
  EXPECT_TRUE(has(screen, "reason 5\n"));
  EXPECT_FALSE(has(screen, "reason 6\n"));
  EXPECT_TRUE(has(screen, "  ~ and 3 more; the report has their reasons\n"));
}

TEST(Table, WaivedRowsAreALineADeviceAndReason) {
  Report report;
  for (const std::string method : {"speedtorch", "index_select", "staged"}) {
    for (const std::string direction : {"to", "from"}) {
      report.records.push_back(measured(direction, "pinned", method, 1));
      report.records.back().status = Status::waived;
      report.records.back().reason = "no driver";
    }
  }
  report.records.push_back(measured("from", "libtorch", "index_select", 1));
  report.records.back().status = Status::waived;
  report.records.back().reason = "index_copy_ takes int64 only; --index-dtype int64";
  EXPECT_EQ(render_tables(report, Style::plain, tables_of),
            "Not measured here:\n"
            "  pinned on cpu: no driver\n"
            "  index_select of libtorch on cpu: index_copy_ takes int64 only; --index-dtype int64\n");
}

TEST(Table, EmptyPartsDoNotAppear) {
  EXPECT_EQ(render_tables(Report(), Style::plain, tables_of), "");
  EXPECT_EQ(answer(Report()), "");
}

TEST(Table, WarningsAndInterruptionAreSaid) {
  Report report;
  report.warnings = {"the CPU governor is powersave"};
  report.interrupted = true;
  const std::string screen = render_tables(report, Style::plain, tables_of);
  EXPECT_TRUE(has(screen, "warning: the CPU governor is powersave\n"));
  EXPECT_TRUE(has(screen, "Interrupted"));
}

TEST(Table, OtherSuitesGetAPlainTable) {
  Report report;
  for (const std::string placement : {"pageable", "hugepage"}) {
    Record record;
    record.id = {"other", "", placement, "speedtorch", "cpu", "float32", "", "", 1000, 128, 0, 0};
    record.more = {{"requested_bytes", std::int64_t{512'000}}, {"overhead_ratio", 1.25}};
    report.records.push_back(record);
  }
  report.records[1].status = Status::failed;
  report.records[1].reason = "out of memory";
  EXPECT_EQ(render_tables(report, Style::plain, tables_of),
            "other\n"
            "  method speedtorch, device cpu, dtype float32, rows 1,000, dim 128\n"
            "  placement      us  requested_bytes  overhead_ratio  verified_rows  payload_bytes\n"
            "  pageable                   512,000           1.250              0              0\n"
            "  hugepage   failed          512,000           1.250              0              0\n"
            "  failed speedtorch(hugepage): out of memory\n");
}

TEST(Table, PlainTableNamesTheColumnsThatDoNotFit) {
  Report report;
  report.records.push_back(measured("to", "hugepage", "speedtorch", 0.01));
  report.records.front().id.suite = "other";
  for (int i = 0; i < 30; ++i)
    report.records.front().more.emplace_back("column" + std::to_string(i), std::int64_t{i});
  EXPECT_TRUE(has(render_tables(report, Style::plain, tables_of), "also in the report: "));
  expect_screen(report);
}

TEST(Table, NoLineIsWiderThanTheScreen) {
  expect_screen(sample_report());
  Report long_names = sample_report();
  for (Record& record : long_names.records) {
    record.id.placement += std::string(120, 'p');
    record.id.distribution = "file:" + std::string(150, 'f');
    record.reason += std::string(250, 'r');
    record.verified_rows = record.mismatches = std::numeric_limits<std::int64_t>::max();
  }
  long_names.warnings = {std::string(300, 'w') + " \n " + std::string(50, '\x01')};
  expect_screen(long_names);
  for (Record& record : long_names.records) record.id.suite = std::string(130, 's') + "\n";
  expect_screen(long_names);
}

TEST(Table, AnyReportCanBeShown) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Report report = random_report(seed);
    expect_screen(report);
    for (Record& record : report.records) record.id.suite = "transfer";
    expect_screen(report);
  }
}

TEST(Tables, AreThoseThatTheSuiteRegistered) {
  Report report;
  report.records = {measured("to", "hugepage", "speedtorch", 1), measured("to", "hugepage", "copy", 1)};
  report.records.back().status = Status::waived;
  const auto counted = [](const std::vector<const Record*>& rows, Style) {
    return std::to_string(rows.size()) + " rows\n";
  };
  const auto shown = [&](bool waived_too) {
    return render_tables(report, Style::plain, [&](const std::string& suite) {
      EXPECT_EQ(suite, "transfer");
      return SuiteTables{counted, waived_too};
    });
  };
  EXPECT_TRUE(shown(false).starts_with("1 rows\n"));
  EXPECT_TRUE(shown(true).starts_with("2 rows\n"));
}

}  // namespace
}  // namespace stbench::reports

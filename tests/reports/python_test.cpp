// Python's csv and json modules as oracles of what we write.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "reports/files/csv.h"
#include "reports/files/file.h"
#include "reports/files/json.h"
#include "tests/harness/temporary_folder.h"
#include "tests/paths.h"
#include "tests/reports/random_report.h"

namespace stbench::reports {
namespace {

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 4096> block{};
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe.get()))
    text.append(block.data(), count);
  return text;
}

std::string samples_and_seed(const Report& report) {
  std::string text;
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    text += fmt::format("{} samples", i);
    for (const double sample : report.records[i].samples_s) {
      text += fmt::format(" {:016x}", std::bit_cast<std::uint64_t>(sample));
    }
    text += "\n";
  }
  return text + fmt::format("seed {}\n", report.seed);
}

TEST(Python, ReadsTheSameCellsAsWeWrote) {
  const std::string python = STBENCH_PYTHON;
  if (python.empty())
    GTEST_SKIP() << "no Python to compare with; configure with -DSTBENCH_PYTHON=/usr/bin/python3";
  const stbench::test::TemporaryFolder folder;
  const std::string csv = folder.path() / "t.csv";
  const std::string json = folder.path() / "t.json";
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Report report = random_report(seed);
    ReportFile(csv).write(to_csv(report));
    ReportFile(json).write(to_json(report));
    const std::string script = stbench::test::source_folder() + "/tests/reports/read_reports.py";
    EXPECT_EQ(output_of(fmt::format("'{}' '{}' '{}' '{}' 2>&1", python, script, csv, json)),
              dump_cases(report) + samples_and_seed(report))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace stbench::reports

/// The fuzz target of what a run does with a baseline: its name in the first line, then its reports, of which
/// the last is the new one, with a line "---" between them. They are read, compared and calibrated, or there
/// is a ReportError.
#include <vector>

#include "reports/compare/baselines.h"
#include "reports/compare/calibration.h"
#include "reports/compare/comparable.h"
#include "reports/compare/conclusion.h"
#include "tests/reports/reader_fuzz.h"

namespace stbench::reports {
namespace {

void check_name(const std::string& name) {
  try {
    Baselines::check_name(name);
  } catch (const ReportError& error) {
    return test::check_message(error.what(), 1 + std::count(name.begin(), name.end(), '\n'));
  }
  require(name.find_first_of(std::string_view("/\\ \0", 4)) == std::string::npos && name.front() != '.',
          "a name stays in its folder");
}

void check_differences(const Report& base, const Report& now) {
  require(differences(base, base).empty(), "a report is of the same machine as itself");
  for (const auto& [kind, text] : differences(base, now))
    require(kind == "machine" || kind == "driver" || kind == "build", "each difference is of a known kind");
}

void check_judgement(const std::vector<Report>& base, const std::vector<Report>& now,
                     const CalibratedSpreads* spreads) {
  const auto comparison = compare(base, now, {}, spreads);
  const auto status = conclude(comparison, {}, false).exit_status;
  require((status == 2) == (count(comparison, Verdict::now_wrong) > 0), "2 says that a result is wrong");
  require(status != 0 || count(comparison, Verdict::slower) == 0, "0 says that nothing is slower");
}

void check_reports(std::vector<Report> reports) {
  const auto calibration = spreads_of(reports);
  require(calibration.processes == reports.size(), "each report counts");
  const auto text = to_json(calibration);
  require(to_json(calibration_from_json(text, "fuzz")) == text, "a calibration that was made can be read");
  const CalibratedSpreads spreads(calibration);
  const std::vector<Report> now{reports.back()};
  reports.pop_back();
  check_differences(reports.front(), now.front());
  check_judgement(reports, now, nullptr);
  check_judgement(reports, now, &spreads);
}

}  // namespace
}  // namespace stbench::reports

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stbench::reports;
  constexpr std::size_t kMostReports = 8;  // a baseline of many is slow and tells no more
  auto text = stbench::test::text_of(data, size);
  check_name(std::string(stbench::test::taken(text, "\n")));
  std::vector<Report> reports;
  try {
    while (!text.empty() && reports.size() < kMostReports)
      reports.push_back(from_json(stbench::test::taken(text, "\n---\n"), "fuzz"));
  } catch (const ReportError& error) {
    check_refusal(error.what());
    return 0;
  }
  if (reports.size() < 2) return 0;
  try {
    check_reports(std::move(reports));
  } catch (const ReportError& error) {
    stbench::test::check_message(error.what(), 3);
  }
  return 0;
}

/// The fuzz target of the reader of calibration files: any bytes give a calibration or a ReportError. What
/// was read is written and read again as the same, and each row's spread is found.
#include "reports/compare/calibration.h"
#include "tests/reports/reader_fuzz.h"

namespace stbench::reports {
namespace {

void check_spreads(const Calibration& calibration) {
  const CalibratedSpreads spreads(calibration);
  for (const auto& row : calibration.cases) {
    const auto* const found = spreads.find(row.id, "time");
    require(found != nullptr || !row.time || row.processes < 2, "the spread of each row is found");
    require(found == nullptr || (found->freedom > 0 && found->squares >= 0), "a spread is no less than zero");
    require(spreads.find(row.id, "other") == nullptr, "nothing is known of other metrics");
  }
}

}  // namespace
}  // namespace stbench::reports

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stbench::reports;
  try {
    const auto calibration = calibration_from_json(stbench::test::text_of(data, size), "fuzz");
    const auto text = to_json(calibration);
    require(to_json(calibration_from_json(text, "fuzz")) == text,
            "what was read is written and read again as the same");
    check_spreads(calibration);
  } catch (const ReportError& error) {
    check_refusal(error.what());
  }
  return 0;
}

/// The fuzz target of the case IDs of `--case`. The first byte chooses the kind of case. Any text gives a
/// case or a UsageError, and the case ID of a case that was read is read as the same case.
#include "harness/case_id.h"
#include "harness/errors.h"
#include "tests/fuzz.h"

namespace stbench::harness {
namespace {

using test::require;

const AxisDefaults& defaults() {
  static const AxisDefaults all{
      {"cache", "warm"}, {"callers", std::int64_t{1}}, {"clip", 0.0}, {"isa", reports::Value{}}};
  return all;
}

void check_case_id(std::string_view case_id, CaseKind kind) {
  const auto id = parse_case(case_id, defaults(), kind);
  require(id.rows > 0 && id.dim > 0 && id.cores >= 0, "counts are none below zero");
  require((kind == CaseKind::moves) == (id.batch > 0), "a case that moves has a batch");
  require(id.axes.size() == defaults().size(), "a case has all axes");
  const auto written = format_case(id, defaults());
  const auto again = parse_case(written, defaults(), kind);
  require(again == id, "a case_id that was written is read as the same case");
  require(format_case(again, defaults()) == written, "the same case has the same case_id");
}

}  // namespace
}  // namespace stbench::harness

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stbench;
  if (size == 0) return 0;
  const auto case_id = test::text_of(data + 1, size - 1);
  try {
    harness::check_case_id(case_id, static_cast<harness::CaseKind>(data[0] % 3));
  } catch (const UsageError& error) {
    test::check_message(error.what(), 2);
  }
  return 0;
}

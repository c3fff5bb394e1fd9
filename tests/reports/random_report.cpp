#include "tests/reports/random_report.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "reports/files/emulated.h"

namespace stbench::reports {

const std::vector<std::string> kSchemaColumns = {
    "suite",         "direction",   "placement", "method",        "device",  "dtype",         "index_dtype",
    "distribution",  "rows",        "dim",       "batch",         "cores",   "status",        "reason",
    "samples",       "median_s",    "ci_low_s",  "ci_high_s",     "min_s",   "p05_s",         "p95_s",
    "payload_bytes", "index_bytes", "gb_per_s",  "copy_fraction", "speedup", "verified_rows", "mismatches"};

namespace {

using Limits = std::numeric_limits<double>;

const std::vector<std::string> kTexts = {"",
                                         "plain",
                                         "123",
                                         "-0.0",
                                         "1e5",
                                         "nan",
                                         "inf",
                                         "a,b",
                                         "say \"hi\"",
                                         "\"",
                                         "a\nb",
                                         "a\rb",
                                         "\r\n",
                                         " lead",
                                         "trail ",
                                         "\ttab",
                                         "null",
                                         "×–é漢字\U0001F642",
                                         "\xEF\xBB\xBFmark",
                                         "=1+1",
                                         "back\\slash",
                                         "'",
                                         "true",
                                         "0x10",
                                         "1,5",
                                         "\n",
                                         "9223372036854775808"};

const std::vector<double> kDoubles = {0.0,
                                      -0.0,
                                      1.0,
                                      -1.0,
                                      0.1,
                                      100000.0,
                                      1e22,
                                      1e23,
                                      1e308,
                                      Limits::max(),
                                      Limits::lowest(),
                                      Limits::min(),
                                      Limits::denorm_min(),
                                      -Limits::denorm_min(),
                                      Limits::epsilon(),
                                      9007199254740993.0,
                                      2.2250738585072011e-308,
                                      5e-324};

class Source {
 public:
  explicit Source(std::uint64_t seed) : bits_(seed) {}

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(bits_); }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }
  std::string text() {
    return kTexts[below(kTexts.size())] + (chance(3) ? kTexts[below(kTexts.size())] : "");
  }

  double real() {
    if (chance(2)) return kDoubles[below(kDoubles.size())];
    const double value = std::bit_cast<double>(bits_());
    return std::isfinite(value) ? value : 0.3;
  }
  /// What a fixed column holds: no time and no speed is negative.
  std::optional<double> maybe_real() { return chance(3) ? std::nullopt : std::optional(std::fabs(real())); }

  std::int64_t count() {
    if (chance(3)) return chance(2) ? 0 : std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(bits_() >> (1 + below(62)));
  }
  Value value() {
    switch (below(4)) {
      case 0:
        return text();
      case 1:
        return real();
      case 2:
        return chance(2) ? count() : -count();
      default:
        return {};
    }
  }

 private:
  std::mt19937_64 bits_;
};

Record random_record(Source& source, const Report& report) {
  Record record;
  Identity& id = record.id;
  for (auto* text : {&id.suite, &id.direction, &id.placement, &id.method, &id.device, &id.dtype,
                     &id.index_dtype, &id.distribution, &record.reason}) {
    *text = source.text();
  }
  for (auto* count : {&id.rows, &id.dim, &id.batch, &id.cores, &record.samples, &record.payload_bytes,
                      &record.index_bytes, &record.verified_rows, &record.mismatches}) {
    *count = source.count();
  }
  for (auto* real : {&record.median_s, &record.ci_low_s, &record.ci_high_s, &record.min_s, &record.p05_s,
                     &record.p95_s, &record.gb_per_s, &record.copy_fraction, &record.speedup}) {
    *real = source.maybe_real();
  }
  record.status = static_cast<Status>(source.below(5));
  if (has_numbers(record.status) && !record.median_s) {
    record.status = Status::ok;
    record.reason = emulated_reason;
  }
  for (const std::string& axis : report.axes) {
    if (!source.chance(4)) id.axes.emplace_back(axis, source.value());
  }
  for (const std::string name : {"repeat", "pages_got", "odd, \"name\"", "a\nb", "größe"}) {
    if (!source.chance(4)) record.more.emplace_back(name, source.value());
  }
  for (std::size_t n = source.below(20); n > 0; --n) record.samples_s.push_back(std::fabs(source.real()));
  return record;
}

std::string hex_of(const std::string& text) {
  std::string hex;
  for (const char c : text) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

std::string shown(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return "text " + hex_of(*text);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("int {}", *integer);
  if (const auto* real = std::get_if<double>(&value)) {
    return fmt::format("real {:016x}", std::bit_cast<std::uint64_t>(*real));
  }
  return "null";
}

std::string shown(const std::optional<double>& value) {
  if (value) return shown(Value(*value));  // of `value ? ... : ...` g++ 12 warns at -O1
  return shown(Value());
}

std::vector<std::string> fixed_cells(const Record& r) {
  const Identity& id = r.id;
  const std::vector<std::string> statuses = {"ok", "unstable", "waived", "wrong", "failed"};
  std::vector<std::string> cells;
  for (const auto& text : {id.suite, id.direction, id.placement, id.method, id.device, id.dtype,
                           id.index_dtype, id.distribution}) {
    cells.push_back(shown(Value(text)));
  }
  for (const std::int64_t count : {id.rows, id.dim, id.batch, id.cores}) cells.push_back(shown(Value(count)));
  cells.push_back(shown(Value(statuses[static_cast<std::size_t>(r.status)])));
  cells.push_back(shown(Value(r.reason)));
  cells.push_back(shown(Value(r.samples)));
  for (const auto& real : {r.median_s, r.ci_low_s, r.ci_high_s, r.min_s, r.p05_s, r.p95_s})
    cells.push_back(shown(real));
  for (const std::int64_t count : {r.payload_bytes, r.index_bytes}) cells.push_back(shown(Value(count)));
  for (const auto& real : {r.gb_per_s, r.copy_fraction, r.speedup}) cells.push_back(shown(real));
  for (const std::int64_t count : {r.verified_rows, r.mismatches}) cells.push_back(shown(Value(count)));
  return cells;
}

std::map<std::string, std::string> further_cells(const Report& report, const Record& record) {
  std::map<std::string, std::string> cells;
  for (const std::string& axis : report.axes) cells[axis] = "null";
  for (const Record& any : report.records) {
    for (const auto& [name, value] : any.more) cells[name] = "null";
  }
  for (const auto& [name, value] : record.id.axes) cells[name] = shown(value);
  for (const auto& [name, value] : record.more) cells[name] = shown(value);
  return cells;
}

}  // namespace

Report random_report(std::uint64_t seed) {
  Source source(seed);
  Report report;
  report.program = source.text();
  report.argv = {source.text(), source.text()};
  report.seed = source.chance(2) ? std::numeric_limits<std::uint64_t>::max() : seed;
  report.started_at = "2025-06-01T12:00:00Z";
  report.environment = {{"cpu", {{"model", source.text()}, {"mhz", source.real()}}}};
  report.warnings = {source.text()};
  report.interrupted = source.chance(2);
  for (const std::string axis : {"cache", "callers", "index_home", "isa"}) {
    if (!source.chance(4)) report.axes.push_back(axis);
  }
  for (std::size_t n = source.below(9); n > 0; --n) report.records.push_back(random_record(source, report));
  return report;
}

std::string dump_cases(const Report& report) {
  std::string text;
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& record = report.records[i];
    const std::vector<std::string> fixed = fixed_cells(record);
    for (std::size_t c = 0; c < fixed.size(); ++c)
      text += fmt::format("{} {} {}\n", i, hex_of(kSchemaColumns[c]), fixed[c]);
    for (const auto& [name, cell] : further_cells(report, record))
      text += fmt::format("{} {} {}\n", i, hex_of(name), cell);
  }
  return text;
}

}  // namespace stbench::reports

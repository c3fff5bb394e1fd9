#include "reports/compare/metric.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "reports/columns.h"
#include "reports/statistics/role.h"

namespace stbench::reports {
namespace {

using SideOfOne = std::vector<const Record*>;

bool usable(double number) { return std::isfinite(number) && number > 0; }

bool has_usable_time(const Record* record) {
  return record != nullptr && has_numbers(record->status) && record->median_s && usable(*record->median_s);
}

bool has_samples(const Record& record) {
  return !record.samples_s.empty() && std::ranges::all_of(record.samples_s, usable);
}

std::vector<double> logs(std::vector<double> numbers) {
  for (double& number : numbers) number = std::log(number);
  return numbers;
}

std::optional<Interval> log_interval(const Record& record) {
  if (!record.ci_low_s || !record.ci_high_s || !usable(*record.ci_low_s) || !usable(*record.ci_high_s)) {
    return std::nullopt;
  }
  return Interval{std::log(*record.ci_low_s), std::log(*record.ci_high_s)};
}

Measured time_of(const Record& record, bool samples) {
  Measured measured{std::log(*record.median_s), {}, log_interval(record)};
  if (samples) measured.samples = logs(record.samples_s);
  return measured;
}

bool may_be_of_same_rounds(const Record& a, const Record& b) {
  const Value* const of_a = find(a.more, "group");
  const Value* const of_b = find(b.more, "group");
  const bool known = of_a != nullptr && of_b != nullptr;
  return a.samples_s.size() == b.samples_s.size() && (!known || *of_a == *of_b);
}

/// The interval of a quotient, from the intervals of both parts.
std::optional<Interval> quotient_interval(double value, const Measured& a, const Measured& b) {
  if (!a.interval || !b.interval) return std::nullopt;
  const auto reach = [](double one, double other) { return std::hypot(one, other); };
  return Interval{value - reach(a.value - a.interval->low, b.interval->high - b.value),
                  value + reach(a.interval->high - a.value, b.value - b.interval->low)};
}

Measured against_ceiling(const Record& record, const Record& ceiling, bool samples) {
  const Measured time = time_of(record, samples), reference = time_of(ceiling, samples);
  Measured measured{time.value - reference.value, {}, std::nullopt};
  measured.interval = quotient_interval(measured.value, time, reference);
  if (time.samples.empty()) return measured;  // of a CSV, or of a sum, which is not timed
  const bool paired = may_be_of_same_rounds(record, ceiling);
  for (std::size_t i = 0; i < time.samples.size(); ++i) {
    measured.samples.push_back(time.samples[i] - (paired ? reference.samples[i] : reference.value));
  }
  measured.value = median(measured.samples);
  return measured;
}

double sum_of_logs(const JoinedCase& joined) {
  double sum = 0;
  for (const SideOfOne* side : {&joined.base, &joined.now}) {
    for (const Record* record : *side) sum += std::log(*record->median_s);
  }
  return sum;
}

/// The role is of the method, so any of the records tells it.
Part part_of(const JoinedCase& joined) {
  for (const SideOfOne* side : {&joined.base, &joined.now}) {
    for (const Record* record : *side) {
      if (record == nullptr) continue;
      if (is_ceiling(*record)) return Part::ceiling;
      return is_libtorch(*record) && joined.id.placement == "libtorch" ? Part::control : Part::subject;
    }
  }
  return Part::subject;
}

using Ceilings = std::map<std::string, const JoinedCase*>;

/// The better reference of two ceilings: another's code before ours, then the faster.
bool is_better(const JoinedCase& one, const JoinedCase& other) {
  const bool ours = one.id.method == "stream", others = other.id.method == "stream";
  return ours == others ? sum_of_logs(one) < sum_of_logs(other) : others;
}

/// The ceilings of cells that have one in every report.
Ceilings ceilings_of(const std::vector<JoinedCase>& cases) {
  Ceilings ceilings;
  for (const JoinedCase& joined : cases) {
    if (part_of(joined) != Part::ceiling) continue;
    if (!std::ranges::all_of(joined.base, has_usable_time) ||
        !std::ranges::all_of(joined.now, has_usable_time))
      continue;
    const JoinedCase*& ceiling = ceilings[cell_key(joined.id)];
    if (ceiling == nullptr || is_better(joined, *ceiling)) ceiling = &joined;
  }
  return ceilings;
}

std::vector<Measured> times(const SideOfOne& side, const SideOfOne* ceiling, bool samples) {
  std::vector<Measured> all;
  for (std::size_t i = 0; i < side.size(); ++i) {
    if (!has_usable_time(side[i])) continue;
    all.push_back(ceiling == nullptr ? time_of(*side[i], samples)
                                     : against_ceiling(*side[i], *(*ceiling)[i], samples));
    all.back().report = i;
  }
  return all;
}

std::vector<Measured> column_values(const SideOfOne& side, const std::string& column) {
  std::vector<Measured> all;
  for (std::size_t i = 0; i < side.size(); ++i) {
    if (side[i] == nullptr || !has_numbers(side[i]->status)) continue;
    const auto number = number_of(cell_of(*side[i], column));
    if (number && usable(*number)) all.push_back({std::log(*number), {}, std::nullopt, i});
  }
  return all;
}

}  // namespace

bool have_samples(const std::vector<JoinedCase>& cases) {
  return std::ranges::all_of(cases, [](const JoinedCase& joined) {
    return std::ranges::all_of(
        joined.measured(), [](const Record* record) { return record->samples == 0 || has_samples(*record); });
  });
}

bool follows_from_others(const JoinedCase& joined) {
  const SideOfOne measured = joined.measured();
  return !measured.empty() &&
         std::ranges::none_of(measured, [](const Record* record) { return record->samples > 0; });
}

std::string_view to_string(Part part) {
  constexpr std::array<std::string_view, 3> kNames = {"subject", "ceiling", "control"};
  return kNames.at(static_cast<std::size_t>(part));
}

std::vector<MeasuredCase> measured_cases(const std::vector<JoinedCase>& cases, const std::string& metric,
                                         const ByTime& by_time) {
  const bool samples = have_samples(cases);
  const Ceilings ceilings = metric == "auto" ? ceilings_of(cases) : Ceilings{};
  std::vector<MeasuredCase> all;
  for (const JoinedCase& joined : cases) {
    const Part part = part_of(joined);
    if (metric != "auto" && metric != "time") {
      all.push_back({part, metric, column_values(joined.base, metric), column_values(joined.now, metric)});
      continue;
    }
    const bool relative = part == Part::subject && !(by_time && by_time(joined.id));
    const auto found = relative ? ceilings.find(cell_key(joined.id)) : ceilings.end();
    const JoinedCase* const ceiling = found == ceilings.end() ? nullptr : found->second;
    all.push_back({part, ceiling == nullptr ? "time" : "ceiling",
                   times(joined.base, ceiling == nullptr ? nullptr : &ceiling->base, samples),
                   times(joined.now, ceiling == nullptr ? nullptr : &ceiling->now, samples)});
  }
  return all;
}

}  // namespace stbench::reports

#include "reports/tables/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/columns.h"
#include "reports/group.h"
#include "reports/statistics/role.h"
#include "reports/statistics/statistics.h"
#include "reports/style.h"
#include "reports/tables/transfer_table.h"

namespace stbench::reports {
namespace {

constexpr std::array<std::string_view, 2> kAnswered = {"to", "from"};

bool is_ours(const Record& row) { return row.id.method == "speedtorch"; }

bool answers(const Record& row) {
  return is_ours(row) && std::ranges::find(kAnswered, row.id.direction) != kAnswered.end();
}

/// The fastest of the rows that `counts` accepts, or null.
template <typename Counts>
const Record* fastest(const Rows& rows, Counts counts) {
  const Record* best = nullptr;
  for (const Record* row : rows) {
    if (counts(*row) && (best == nullptr || *row->median_s < *best->median_s)) best = row;
  }
  return best;
}

/// The rows of one workload on the most cores that our method was measured with there.
Rows on_most_cores(Rows rows) {
  std::int64_t cores = 0;
  for (const Record* row : rows) cores = answers(*row) ? std::max(cores, row->id.cores) : cores;
  std::erase_if(rows, [&](const Record* row) { return row->id.cores != cores; });
  return rows;
}

/// Measured workloads that our method has part in, each on the most cores; those on a GPU first.
std::vector<Rows> workloads_of(const Report& report) {
  const Rows measured = those(pointers_to(report.records), [](const Record& row) {
    return row.id.suite == "transfer" && has_numbers(row.status) && row.median_s;
  });
  std::vector<Rows> workloads;
  for (const Rows& rows : group_without(measured, {"direction", "placement", "method", "cores"})) {
    if (std::ranges::any_of(rows, [](const Record* row) { return answers(*row); }))
      workloads.push_back(on_most_cores(rows));
  }
  std::ranges::stable_partition(workloads, [](const Rows& rows) { return rows.front()->id.device != "cpu"; });
  return workloads;
}

std::string speed_text(const Record& row) {
  const std::string_view mark = row.status == Status::unstable ? "~" : "";
  const std::string speed =
      row.gb_per_s ? significant(*row.gb_per_s, 3) + " GB/s" : significant(*row.median_s, 4) + " s";
  const std::string share =
      row.copy_fraction ? fmt::format(" ({:.0f}% of the ceiling)", 100 * *row.copy_fraction) : std::string();
  return fmt::format("{} {}{}{}", row.id.direction, mark, speed, share);
}

/// Only samples of the same rounds pair up: the machine's speed drifts in between.
bool same_rounds(const Record& a, const Record& b) {
  const Value* const group_a = find(a.more, "group");
  const Value* const group_b = find(b.more, "group");
  return group_a != nullptr && group_b != nullptr && *group_a == *group_b;
}

/// How many times faster one row is than another.
struct Gain {
  double middle = 1;
  std::optional<Interval> interval;
  bool paired = false;  ///< the interval is that of the rounds' ratios
  bool steady = true;   ///< neither row is unstable

  /// True if the interval is known and does not reach 1.
  [[nodiscard]] bool excludes_none() const { return interval && (interval->low > 1 || interval->high < 1); }
  [[nodiscard]] bool decided() const { return steady && excludes_none(); }
};

/// Returns the median of the ratios of paired rounds and its 95 % interval; without such rounds the ratio of
/// the medians, between the ends of both medians' intervals.
Gain gain_of(const Record& ours, const Record& theirs) {
  const bool steady = ours.status != Status::unstable && theirs.status != Status::unstable;
  if (const auto paired =
          same_rounds(ours, theirs) ? ratio_interval(theirs.samples_s, ours.samples_s) : std::nullopt)
    return {median(ratios(theirs.samples_s, ours.samples_s)), paired, true, steady};
  Gain gain{speedup(*ours.median_s, *theirs.median_s), std::nullopt, false, steady};
  if (ours.ci_low_s && ours.ci_high_s && theirs.ci_low_s && theirs.ci_high_s)
    gain.interval = {*theirs.ci_low_s / *ours.ci_high_s, *theirs.ci_high_s / *ours.ci_low_s};
  return gain;
}

/// Our rows of one direction, the fastest first: one for each placement.
Rows ours_by_speed(const Rows& rows, std::string_view direction) {
  Rows ours;
  for (const Record* row : rows) {
    if (is_ours(*row) && row->id.direction == direction) ours.push_back(row);
  }
  std::ranges::stable_sort(ours, {}, [](const Record* row) { return *row->median_s; });
  return ours;
}

/// Returns the first placement, after the fastest, that may be as fast; null if there is none.
const Record* contender(const Rows& by_speed) {
  const auto may_be_as_fast = [&](const Record* other) {
    const Gain gain = gain_of(*by_speed[0], *other);
    return !gain.steady || !gain.interval || gain.interval->low <= 1;
  };
  const auto found = std::find_if(by_speed.begin() + 1, by_speed.end(), may_be_as_fast);
  return found == by_speed.end() ? nullptr : *found;
}

std::string speed_in_place(const Record& row) {
  return fmt::format("{} in {}", speed_text(row), row.id.placement);
}

/// "in hugepage: to 20.5 GB/s (89% of the ceiling), from ...": the directions that are fastest in one
/// placement.
std::string place_text(const Rows& best) {
  std::vector<std::string> speeds;
  for (const Record* row : best) speeds.push_back(speed_text(*row));
  return fmt::format("in {}: {}", best.front()->id.placement, fmt::join(speeds, ", "));
}

std::string place_sentence(const Rows& rows) {
  Rows best;
  std::vector<std::string> places, open;
  for (const std::string_view direction : kAnswered) {
    const Rows by_speed = ours_by_speed(rows, direction);
    if (by_speed.empty()) continue;
    const Record& fastest = *by_speed[0];
    if (const Record* other = contender(by_speed))
      open.push_back(fmt::format("{}, {}", speed_in_place(fastest), speed_in_place(*other)));
    else if (fastest.status == Status::unstable)
      open.push_back(fmt::format("{}, unstable", speed_in_place(fastest)));
    else
      best.push_back(&fastest);
  }
  for (const Rows& place : group_by(best, [](const Record& row) { return row.id.placement; })) {
    places.push_back(place_text(place));
  }
  const Record& any = *rows.front();
  const std::string where = fmt::format(" ({}, {}).", any.id.device, cores_text(any.id.cores));
  const std::string undecided = open.empty() ? "" : fmt::format("not decided: {}", fmt::join(open, "; "));
  if (best.empty())
    return fmt::format("Where to keep such a table ({}) here is {}{}", workload_text(any), undecided, where);
  return fmt::format("Keep such a table ({}) here {}{}{}{}", workload_text(any), fmt::join(places, "; "),
                     open.empty() ? "" : "; ", undecided, where);
}

/// "1.83× faster (95% interval 1.81 to 1.84)": with as many digits as its interval, or rounding could put it
/// outside.
std::string gain_text(const Gain& gain) {
  const auto& [low, high] = *gain.interval;
  const bool faster = gain.middle >= 1;
  return fmt::format("{:.2f}× {} ({} {:.2f} to {:.2f})", faster ? gain.middle : 1 / gain.middle,
                     faster ? "faster" : "slower",
                     gain.paired ? "95% interval" : "the medians' intervals allow", faster ? low : 1 / high,
                     faster ? high : 1 / low);
}

/// The gains of the kernel and of the pages: LibTorch's best in our pages lies between.
std::string parts_text(const Record& ours, const Record& theirs, const Record* theirs_here) {
  if (theirs_here == nullptr) return "; LibTorch in hugepage was not measured, so the pages may be all of it";
  const Gain kernel = gain_of(ours, *theirs_here);
  if (!kernel.decided())
    return kernel.interval ? fmt::format("; the kernel's part is not decided: {:.2f}× to {:.2f}×",
                                         kernel.interval->low, kernel.interval->high)
                           : "; the kernel's part is not decided";
  const Gain pages = gain_of(*theirs_here, theirs);
  return fmt::format(
      ": {} is the kernel, {}", ratio_text(kernel.middle),
      pages.decided() ? ratio_text(pages.middle) + " the pages" : "the pages' part is not decided");
}

/// @param theirs_here LibTorch's best in the placement of ours, or null
std::string gain_text(const Record& ours, const Record& theirs, const Record* theirs_here) {
  const Gain gain = gain_of(ours, theirs);
  if (gain.decided())
    return fmt::format("{} {}{}", ours.id.direction, gain_text(gain), parts_text(ours, theirs, theirs_here));
  if (!gain.interval) return fmt::format("{} is not decided", ours.id.direction);
  return fmt::format("{} is not decided, {:.2f}× to {:.2f}×{}", ours.id.direction, gain.interval->low,
                     gain.interval->high, gain.steady ? "" : " of unstable rows");
}

/// The gains of one workload, direction by direction; none where it lacks either side.
std::vector<std::string> gains(const Rows& rows) {
  std::vector<std::string> parts;
  for (const std::string_view direction : kAnswered) {
    const auto in = [&](const Record& row, std::string_view placement) {
      return row.id.direction == direction && row.id.placement == placement;
    };
    const Record* const ours =
        fastest(rows, [&](const Record& r) { return is_ours(r) && in(r, "hugepage"); });
    const Record* const theirs =
        fastest(rows, [&](const Record& r) { return is_libtorch(r) && in(r, "libtorch"); });
    const Record* const theirs_here =
        fastest(rows, [&](const Record& r) { return is_libtorch(r) && in(r, "hugepage"); });
    if (ours != nullptr && theirs != nullptr) parts.push_back(gain_text(*ours, *theirs, theirs_here));
  }
  return parts;
}

/// On a GPU there is no table of ours in huge pages, so the first workload that has both sides speaks.
std::string gain_sentence(const std::vector<Rows>& workloads) {
  for (const Rows& rows : workloads) {
    const auto parts = gains(rows);
    if (parts.empty()) continue;
    const std::string device = rows.front()->id.device == workloads.front().front()->id.device
                                   ? ""
                                   : fmt::format(" on {}", rows.front()->id.device);
    return fmt::format("Our table in hugepage against LibTorch's best in libtorch{}: {}.", device,
                       fmt::join(parts, "; "));
  }
  return "What our table gains was not measured: it takes speedtorch in hugepage and LibTorch in libtorch.";
}

}  // namespace

std::vector<std::string> answer_sentences(const Report& report) {
  const std::vector<Rows> workloads = workloads_of(report);
  if (workloads.empty()) return {};
  std::string place = place_sentence(workloads.front());
  std::string gain = gain_sentence(workloads);
  if ((place + gain).find("not decided") != std::string::npos)
    gain += " Measure on a quiet machine or with more --samples.";
  return {std::move(place), std::move(gain)};
}

std::string answer(const Report& report, Style style) {
  std::string text;
  for (const std::string& sentence : answer_sentences(report))
    text += lines_of(sentence, 0, Paint::none, style);
  return text;
}

}  // namespace stbench::reports

#include "reports/tables/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "reports/columns.h"
#include "reports/group.h"
#include "reports/statistics/role.h"
#include "reports/statistics/statistics.h"
#include "reports/style.h"
#include "reports/tables/transfer_table.h"

namespace stbench::reports {
namespace {

constexpr std::array<std::string_view, 3> kAnswered = {"to", "from", "sum"};

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

/// "in hugepage: to 20.5 GB/s (89% of the ceiling), sum ...": the directions that are fastest in one
/// placement.
std::string place_text(const Rows& best) {
  std::vector<std::string> speeds;
  for (const Record* row : best) speeds.push_back(speed_text(*row));
  return fmt::format("in {}: {}", best.front()->id.placement, fmt::join(speeds, ", "));
}

std::string place_sentence(const Rows& rows) {
  Rows best;
  for (const std::string_view direction : kAnswered) {
    const Record* const row =
        fastest(rows, [&](const Record& r) { return is_ours(r) && r.id.direction == direction; });
    if (row != nullptr) best.push_back(row);
  }
  std::vector<std::string> places;
  for (const Rows& place : group_by(best, [](const Record& row) { return row.id.placement; })) {
    places.push_back(place_text(place));
  }
  const Record& any = *rows.front();
  return fmt::format("Keep such a table ({}) here {} ({}, {}).", workload_text(any), fmt::join(places, "; "),
                     any.id.device, cores_text(any.id.cores));
}

/// Only samples of the same rounds pair up: the machine's speed drifts in between.
bool same_rounds(const Record& a, const Record& b) {
  const Value* const group_a = find(a.more, "group");
  const Value* const group_b = find(b.more, "group");
  return group_a != nullptr && group_b != nullptr && *group_a == *group_b;
}

std::string gain_text(const Record& ours, const Record& theirs) {
  const auto interval =
      same_rounds(ours, theirs) ? ratio_interval(theirs.samples_s, ours.samples_s) : std::nullopt;
  const std::string range =
      interval ? fmt::format(" (95% interval {:.2f} to {:.2f})", interval->low, interval->high)
               : std::string();
  return fmt::format("{} {}{}", ours.id.direction, faster_text(speedup(*ours.median_s, *theirs.median_s)),
                     range);
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
    if (ours != nullptr && theirs != nullptr) parts.push_back(gain_text(*ours, *theirs));
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

std::string answer(const Report& report) {
  const std::vector<Rows> workloads = workloads_of(report);
  if (workloads.empty()) return {};
  return lines_of(place_sentence(workloads.front()), 0) + lines_of(gain_sentence(workloads), 0);
}

}  // namespace stbench::reports

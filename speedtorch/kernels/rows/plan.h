/// What row movements do on this machine, as data: how rows of each width are stored and prefetched, and from
/// which size on. The right choices differ by processor, up to twice in speed (docs/kernels.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "speedtorch/kernels/index_type.h"
#include "speedtorch/kernels/row_view.h"
#include "speedtorch/kernels/rows/row_moves.h"

namespace speedtorch::kernels {

/// How rows of one class of widths are moved.
struct RowChoice {
  Stores stores = Stores::cached;
  PrefetchTo prefetch_to = PrefetchTo::l1;
  std::int32_t lines_ahead = 128;  ///< from the prefetch of a line to its use; 1 to kMostLinesAhead
  /// One line in so many of a row of more than kUnrolledLines, 1 to kUnrolledLines, is asked for before the
  /// row is moved. 0 for all its lines, one by one between the stores of an earlier row: of streamed gathers
  /// only, others take it for 1.
  std::int32_t line_step = 1;
  /// The first line of a row is asked for so many times as far ahead as the rest, 0 to
  /// kMostTouch; 0 and 1 for not before the rest. It brings the row's page into the TLB, for which prefetches
  /// of later lines would wait.
  std::int32_t touch = 0;

  bool operator==(const RowChoice&) const = default;
};

/// Streams rows with each line of a later row asked for between two stores.
constexpr RowChoice kInterleaved{Stores::streaming, PrefetchTo::l2, 512, 0, 2};

/// The same, for a core that has few lines on their way: each is asked for shortly before.
constexpr RowChoice kInterleavedNear{Stores::streaming, PrefetchTo::l2, 64, 0, 2};

constexpr std::int32_t kMostLinesAhead = 4096;
constexpr std::int32_t kMostTouch = 16;

/// The narrowest row of each class of widths, in bytes.
constexpr std::array<std::int64_t, 8> kWidthClasses{1, 48, 96, 192, 512, 640, 1024, 2048};

/// The class of rows of `row_bytes` bytes, at least 1: an index into kWidthClasses.
constexpr std::size_t width_class(std::int64_t row_bytes) {
  std::size_t found = kWidthClasses.size() - 1;
  while (row_bytes < kWidthClasses[found]) --found;
  return found;
}

using ChoicesByWidth = std::array<RowChoice, kWidthClasses.size()>;

/// The choices of one direction.
struct DirectionPlan {
  std::int64_t large_from = 0;  ///< bytes written from which a movement is large
  ChoicesByWidth small;         ///< stored in the cache
  ChoicesByWidth whole_lines;   ///< large, and each row is whole lines of the side that is written
  ChoicesByWidth cut_lines;     ///< large, and lines are shared by rows

  bool operator==(const DirectionPlan&) const = default;
};

struct Plan {
  DirectionPlan gather;
  DirectionPlan scatter;
  std::int64_t thread_bytes = 0;  ///< of rows for which a second thread is woken
  /// The fastest contiguous copies of large blocks, by the pages that the memory has.
  CopyWay copy_small_pages = CopyWay::plain;
  CopyWay copy_huge_pages = CopyWay::plain;

  bool operator==(const Plan&) const = default;

  const DirectionPlan& of(Direction direction) const {
    return direction == Direction::gather ? gather : scatter;
  }
  DirectionPlan& of(Direction direction) { return direction == Direction::gather ? gather : scatter; }
};

/// Processors whose choices are known without a measurement. Those not known move rows as a Zen 5 does.
enum class ProcessorFamily {
  intel,
  intel_167,  ///< a Xeon whose virtual machine says model 167
  zen3,
  zen4,
  other
};

ProcessorFamily processor_family();

/// The choices for a processor family with so much last-level cache.
Plan default_plan(ProcessorFamily family, std::int64_t last_level_bytes);
/// The same for this machine.
Plan default_plan();

/// What is wrong with a plan, or nothing: numbers out of range, or stores that a direction does not have.
const char* fault_in(const Plan& plan);

/// Returns the plan of this process's movements. The first call asks the source, if one is set.
const Plan& plan_in_use();

/// Later movements are planned by `plan`; those that run finish by theirs. @throws RowPlanError for a plan
/// with a fault
void use_plan(const Plan& plan);

/// The movement of these checked operands, of which `out` (`values`) has a row for each index, by a plan.
template <IndexType Index>
RowMove<Index> plan_gather(ConstRows table, const Index* index, Rows out, const Plan& plan = plan_in_use());
template <IndexType Index>
RowMove<Index> plan_scatter(ConstRows values, const Index* index, Rows table,
                            const Plan& plan = plan_in_use());
/// Plans a movement of table rows to the rows `places` of `out`. It is part of one that writes most of `out`.
RowMove<std::int64_t> plan_placed(ConstRows table, const std::int64_t* index, Rows out,
                                  const std::int64_t* places, const Plan& plan = plan_in_use());

/// Asked once, by the first movement that finds no plan: so the kernels, which read no files, get the plan
/// that the library stored. What it throws, that movement throws, and the next one asks again.
void set_plan_source(Plan (*source)());

}  // namespace speedtorch::kernels

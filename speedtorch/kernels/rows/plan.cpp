#include "speedtorch/kernels/rows/plan.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "speedtorch/kernels/cache_size.h"
#include "speedtorch/kernels/error.h"

namespace speedtorch::kernels {
namespace {

/// The payload for which waking a second thread is worth its 1.5 us: 61 KB of rows in the cache take 1.1 us
/// on one thread and 2.4 on two, 197 KB the same on both, 246 KB 6.8 and 5.7.
constexpr std::int64_t kThreadBytes = 192 << 10;

/// A core's share of a larger last-level cache, in a virtual machine with the host's neighbours, is no place
/// to find rows again: on an Intel Xeon that says 480 MiB, movements from 16 MiB on are faster streamed,
/// reading what they wrote included, those of 8 MiB slower.
constexpr std::int64_t kMostCached = std::int64_t{16} << 20;

/// A row whose ends share lines with its neighbours, from which streaming the lines between pays: the ends of
/// a scattered row are read first then, and they alone.
constexpr std::int64_t kCutScatterBytes = 512;

/// Likewise in a gather, where the neighbour's stores follow soon and complete the line in the cache.
constexpr std::int64_t kCutGatherBytes = 2048;

void for_each_width(ChoicesByWidth& choices, auto change) {
  for (std::size_t k = 0; k < choices.size(); ++k) change(choices[k], kWidthClasses[k]);
}

/// The choices that an AMD EPYC with Zen 5 cores was tuned to.
Plan common_plan(std::int64_t last_level_bytes) {
  Plan plan;
  plan.thread_bytes = kThreadBytes;
  for (const auto direction : {Direction::gather, Direction::scatter}) {
    auto& choices = plan.of(direction);
    choices.large_from = std::min(last_level_bytes / 2, kMostCached) + 1;
    for_each_width(choices.whole_lines,
                   [](RowChoice& choice, std::int64_t) { choice.stores = Stores::streaming; });
    const std::int64_t cut = direction == Direction::gather ? kCutGatherBytes : kCutScatterBytes;
    for_each_width(choices.cut_lines, [cut](RowChoice& choice, std::int64_t width) {
      if (width >= cut) choice.stores = Stores::streaming;
    });
  }
  return plan;
}

void interleave(ChoicesByWidth& choices, std::int64_t from, const RowChoice& choice) {
  std::fill(choices.begin() + static_cast<std::ptrdiff_t>(width_class(from)), choices.end(), choice);
}

void prefetch_to_l2(RowChoice& choice, std::int64_t width) {
  choice.prefetch_to = PrefetchTo::l2;
  choice.lines_ahead = width >= 2048 ? 256 : width >= 512 ? 512 : width >= 96 ? 256 : 128;
}

/// Prefetches gathers to L2, of rows from these widths on: small ones, and large ones of whole and of cut
/// lines. The first line is asked for earlier: on the Xeon of model 207, rows below 2 KiB take 0.86 to 0.98
/// of the time with it, of 4 KiB 1.03 to 1.06. 264 B rows that cut lines take 0.95 of the time without.
///
/// Lines of wide rows are asked for between the stores of an earlier row. On Intel's, rows of 2 to 8 KiB take
/// 0.83 to 0.91 of the time, 1152 B 0.94 to 1.00; 656 B and 1160 B, which were staged before, 0.84 to 0.86.
void prefetch_gathers_to_l2(DirectionPlan& gather, std::int64_t small, std::int64_t whole, std::int64_t cut) {
  const auto prefetch = [](ChoicesByWidth& choices, std::int64_t from) {
    for_each_width(choices, [from](RowChoice& choice, std::int64_t width) {
      if (width < from) return;
      prefetch_to_l2(choice, width);
      choice.touch = width < 2048 ? 2 : 0;
    });
  };
  prefetch(gather.small, small);
  prefetch(gather.whole_lines, whole);
  prefetch(gather.cut_lines, cut);
  interleave(gather.whole_lines, 1024, kInterleaved);
  interleave(gather.cut_lines, 640, kInterleaved);
  gather.cut_lines[width_class(192)].touch = 0;
}

/// Of Intel's servers other than model 167. L1 misses and streaming stores share the few fill buffers of a
/// core, a prefetch to L2 waits elsewhere.
void adapt_to_intel(Plan& plan, std::int64_t last_level_bytes) {
  plan.gather.large_from = plan.scatter.large_from = std::min(last_level_bytes / 2, kMostCached);
  plan.copy_small_pages = CopyWay::pages;
  plan.copy_huge_pages = CopyWay::ahead;
  prefetch_gathers_to_l2(plan.gather, 1, 1, 1);
  for (auto* choices : {&plan.scatter.small, &plan.scatter.cut_lines}) {
    for_each_width(*choices, [](RowChoice& choice, std::int64_t width) {
      if (width >= 192) prefetch_to_l2(choice, width);
    });
  }
  // Rows of 96 to 511 B take 0.75 to 0.92 of the time cached instead of staged (160 and 264 B of a 5 GiB
  // table, both kinds of pages, the output read afterwards or not; docs/kernels.md).
  for (const std::int64_t width : {1, 48, 512}) {
    plan.gather.cut_lines[width_class(width)].stores = Stores::staged;
  }
}

/// Gathers, and copies in huge pages, of an Intel Xeon that says model 167; the rest is as on other Xeons. A
/// core there has at most 14 to 16 lines on their way, asked for by prefetches to L1 or to L2. So none is
/// asked for early: with the choices of the other Xeons small gathers take 1.0 to 1.26 times as long, large
/// ones 0.95 to 1.23 (docs/kernels.md, "A third Xeon").
void adapt_to_intel_167(Plan& plan, std::int64_t last_level_bytes) {
  adapt_to_intel(plan, last_level_bytes);
  plan.copy_huge_pages = CopyWay::pages;
  plan.gather.small.fill({Stores::cached, PrefetchTo::l1, 32, 1, 2});
  for_each_width(plan.gather.whole_lines, [](RowChoice& choice, std::int64_t width) {
    choice = width >= 512 ? RowChoice{Stores::streaming, PrefetchTo::l2, 64, 1, 2}
                          : RowChoice{Stores::streaming, PrefetchTo::l1, 32, 1, 2};
  });
  // One choice for each class of widths: from 1, 48, 96, 192 and 512 B on.
  const RowChoice cut[] = {{Stores::staged, PrefetchTo::l1, 32, 1, 2},
                           {Stores::cached, PrefetchTo::l1, 32, 1, 0},
                           {Stores::staged, PrefetchTo::l1, 64, 1, 0},
                           {Stores::staged, PrefetchTo::l1, 64, 1, 0},
                           {Stores::staged, PrefetchTo::l1, 32, 1, 4}};
  std::ranges::copy(cut, plan.gather.cut_lines.begin());
  interleave(plan.gather.cut_lines, 640, kInterleavedNear);
}

/// Large gathers of rows of 1 KiB and more, on an AMD EPYC with Zen 3 cores: 4 KiB rows take 0.81 of the
/// time, of 2 and 8 KiB 0.90 to 0.94, of 1160 B, which were cached, 0.86 to 0.88, of 1024 and 1152 B 0.96 to
/// 0.99. With L2 or 512 lines ahead 4 KiB rows take 1 to 4 % longer (docs/kernels.md).
void adapt_to_zen3(Plan& plan) {
  auto choice = kInterleaved;
  choice.prefetch_to = PrefetchTo::l1;
  choice.lines_ahead = 128;
  for (auto* choices : {&plan.gather.whole_lines, &plan.gather.cut_lines}) interleave(*choices, 1024, choice);
}

/// Gathers of wide rows prefetch to L2 on an AMD EPYC with Zen 4 cores, too: reading takes most of their
/// time. Large ones take 0.59 to 0.95 of the time, over LibTorch's of the same process, small ones of 1 KiB
/// and more 0.82 to 0.89. Narrower rows gain nothing or lose (docs/kernels.md).
void adapt_to_zen4(Plan& plan) {
  prefetch_gathers_to_l2(plan.gather, 1024, 192, 96);
  plan.gather.cut_lines[width_class(512)].stores = Stores::streaming;
}

bool known_stores(Direction direction, const RowChoice& choice, bool small) {
  if (small) return choice.stores == Stores::cached;
  return direction == Direction::gather || choice.stores != Stores::staged;
}

const char* fault_in(Direction direction, const DirectionPlan& plan) {
  if (plan.large_from < 0) return "large_from is negative";
  for (const auto* choices : {&plan.small, &plan.whole_lines, &plan.cut_lines}) {
    for (const RowChoice& choice : *choices) {
      if (!known_stores(direction, choice, choices == &plan.small))
        return "small movements are stored cached, and only gathers staged";
      if (choice.lines_ahead < 1 || choice.lines_ahead > kMostLinesAhead)
        return "lines_ahead is not 1 to 4096";
      if (choice.line_step < 0 || choice.line_step > static_cast<std::int32_t>(kUnrolledLines))
        return "line_step is not 0 to 16";
      if (choice.touch < 0 || choice.touch > kMostTouch) return "touch is not 0 to 16";
    }
  }
  return nullptr;
}

std::atomic<const Plan*> current{nullptr};
std::atomic<Plan (*)()> plan_source{nullptr};

/// Every plan that was ever in use: a movement on another thread may still read it.
const Plan* keep(const Plan& plan) {
  static std::mutex mutex;
  static auto& plans = *new std::vector<std::unique_ptr<const Plan>>;  // movements may outlive statics
  const std::lock_guard lock(mutex);
  for (const auto& kept : plans) {
    if (*kept == plan) return kept.get();
  }
  plans.push_back(std::make_unique<const Plan>(plan));
  return plans.back().get();
}

}  // namespace

ProcessorFamily processor_family() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // A Sapphire Rapids whose virtual machine gives it the model number of a Rocket Lake, which has no bf16.
  if (__builtin_cpu_is("rocketlake") && __builtin_cpu_supports("avx512bf16"))
    return ProcessorFamily::intel_167;
  if (__builtin_cpu_is("intel")) return ProcessorFamily::intel;
  // One family number; g++ 12 has no name for Zen 4.
  if (__builtin_cpu_is("amdfam19h"))
    return __builtin_cpu_supports("avx512f") ? ProcessorFamily::zen4 : ProcessorFamily::zen3;
#endif
  return ProcessorFamily::other;
}

Plan default_plan(ProcessorFamily family, std::int64_t last_level_bytes) {
  auto plan = common_plan(last_level_bytes);
  if (family == ProcessorFamily::intel) adapt_to_intel(plan, last_level_bytes);
  if (family == ProcessorFamily::intel_167) adapt_to_intel_167(plan, last_level_bytes);
  if (family == ProcessorFamily::zen3) adapt_to_zen3(plan);
  if (family == ProcessorFamily::zen4) adapt_to_zen4(plan);
  return plan;
}

Plan default_plan() { return default_plan(processor_family(), last_level_cache_bytes()); }

const char* fault_in(const Plan& plan) {
  if (plan.thread_bytes < 1) return "thread_bytes is not positive";
  const char* fault = fault_in(Direction::gather, plan.gather);
  return fault != nullptr ? fault : fault_in(Direction::scatter, plan.scatter);
}

const Plan& plan_in_use() {
  const Plan* plan = current.load(std::memory_order_acquire);
  if (plan != nullptr) return *plan;
  const auto source = plan_source.load();
  const Plan* found = keep(source != nullptr ? source() : default_plan());
  current.compare_exchange_strong(plan, found);  // unless use_plan() was faster
  return *current.load(std::memory_order_acquire);
}

void use_plan(const Plan& plan) {
  if (const char* fault = fault_in(plan))
    throw RowPlanError(std::string("the plan cannot be used: ") + fault);
  current.store(keep(plan), std::memory_order_release);
}

void set_plan_source(Plan (*source)()) { plan_source.store(source); }

}  // namespace speedtorch::kernels

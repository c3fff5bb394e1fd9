#include "speedtorch/rows/tune.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <thread>

#include "speedtorch/error.h"
#include "speedtorch/kernels/rows/row_moves.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/rows/word_sum.h"
#include "speedtorch/system/limits.h"
#include "speedtorch/system/unfinished.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

using kernels::ConstRows;
using kernels::Direction;
using kernels::kLineBytes;
using kernels::PrefetchTo;
using kernels::RowChoice;
using kernels::RowMove;
using kernels::Rows;
using kernels::Stores;
using Clock = std::chrono::steady_clock;

/// The table's bytes: far beyond every cache and the reach of every TLB, if there are time and memory for it.
/// A table of 128 MiB, filled in some 50 ms, lies in the last-level cache of an Intel Xeon (300 MiB). There
/// staged stores won for rows of 160 and 264 B, which take 0.75 to 0.92 of the time with cached stores if the
/// table has 5 GiB.
std::int64_t table_bytes(double seconds) {
  constexpr std::int64_t kLeast = std::int64_t{128} << 20, kMost = std::int64_t{2} << 30;
  auto bytes = static_cast<std::int64_t>(std::min(seconds / 8, 1.0) * static_cast<double>(kMost));
  const auto limits = memory_limits(MemoryUse::anonymous);
  if (!limits.empty()) bytes = std::min(bytes, limits.front().free / 4);
  return std::max(bytes, kLeast) / kLineBytes * kLineBytes;
}

/// Of a large movement that is measured: more than a core's share of any cache, so that what is read
/// afterwards comes from memory, as of larger ones. 10 ms. At 8 MiB cached stores win on an Intel Xeon, at 64
/// MiB they take twice as long as others.
constexpr std::int64_t kLargeBytes = std::int64_t{64} << 20;
constexpr std::int64_t kOutBytes = kLargeBytes;

/// A choice has to be that much faster than the default to be taken.
constexpr double kWorth = 0.97;

/// Choices that take so many times as long as the best are not measured again.
constexpr double kHopeless = 1.2;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The bytes of one small gather, and of all small gathers of one measurement. By the defaults one thread
/// moves at most 192 KiB, which are 384 rows of 512 B. The choice serves all gathers below `large_from`.
constexpr std::int64_t kSmallBytes = std::int64_t{192} << 10;
constexpr std::int64_t kSmallBytesInAll = std::int64_t{16} << 20;

enum class Pages { usual, huge };

/// The choices of a plan that a width is measured for.
enum class Kind { small, whole_lines, cut_lines };

std::string name_of(Kind kind) {
  return kind == Kind::small ? "small" : kind == Kind::whole_lines ? "whole_lines" : "cut_lines";
}

/// Memory that starts with a page.
class Lines {
 public:
  explicit Lines(std::int64_t bytes, Pages pages = Pages::usual) try
      : memory_(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kAlignment))) {
    // Where the system has none, huge pages are usual ones, here as elsewhere.
    if (pages == Pages::huge) ::madvise(memory_.get(), static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    parallel_for(bytes, 1 << 20, [this](std::int64_t begin, std::int64_t end) {
      std::memset(memory_.get() + begin, 1, static_cast<std::size_t>(end - begin));
    });
  } catch (const std::bad_alloc&) {
    throw MemoryError("cannot tune: " + std::to_string(bytes) + " bytes of memory cannot be had");
  }

  std::byte* data() const { return memory_.get(); }

 private:
  static constexpr auto kAlignment = static_cast<std::align_val_t>(2 << 20);
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

/// Rows of one width, moved between the same two blocks of memory again and again.
class Bench {
 public:
  explicit Bench(std::int64_t table_bytes)
      : table_bytes_(table_bytes), table_(table_bytes), out_(kOutBytes) {}

  /// Seconds of moving `bytes` of rows by a choice and of reading what was written.
  double seconds(Direction direction, const RowChoice& choice, std::int64_t row_bytes, std::int64_t bytes) {
    return on(kThreads, direction, choice, row_bytes, bytes);
  }

  /// The same of a gather on so many threads, which sleep when it begins, as they do when a model calls. By
  /// threads that had just run, 64 KiB paid for a second one, and 384 rows of 512 B took twice as long as
  /// LibTorch's.
  double seconds_on(std::int64_t threads, const RowChoice& choice, std::int64_t row_bytes,
                    std::int64_t bytes) {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    return on(threads, Direction::gather, choice, row_bytes, bytes);
  }

  /// Seconds of small gathers on one thread, each of other rows and read afterwards.
  double seconds_of_small(const RowChoice& choice, std::int64_t row_bytes) {
    double seconds = 0;
    for (std::int64_t moved = 0; moved < kSmallBytesInAll; moved += kSmallBytes)
      seconds += on(1, Direction::gather, choice, row_bytes, kSmallBytes);
    return seconds;
  }

 private:
  double on(std::int64_t threads, Direction direction, const RowChoice& choice, std::int64_t row_bytes,
            std::int64_t bytes) {
    const std::int64_t count = bytes / row_bytes;
    draw(count, table_bytes_ / row_bytes);
    const Rows table{table_.data(), table_bytes_ / row_bytes, row_bytes, row_bytes};
    const Rows out{out_.data(), count, row_bytes, row_bytes};
    const auto move = forced(direction, choice, table, out);
    const std::int64_t grain = (count + threads - 1) / threads;
    const auto begin = Clock::now();
    parallel_for(count, grain, [&](std::int64_t first, std::int64_t last) { run(move, first, last); });
    if (direction == Direction::gather) {
      parallel_for(count, grain, [&](std::int64_t first, std::int64_t last) {
        read(out_.data() + first * row_bytes, (last - first) * row_bytes);
      });
    } else {
      parallel_for(count, grain, [&](std::int64_t first, std::int64_t last) {
        for (auto i = first; i < last; ++i)
          read(table.data + index_[static_cast<std::size_t>(i)] * row_bytes, row_bytes);
      });
    }
    return seconds_since(begin);
  }

  /// The movement that the plan would make of operands without gaps, by this choice.
  RowMove<std::int64_t> forced(Direction direction, const RowChoice& choice, Rows table, Rows out) const {
    Plan plan = kernels::default_plan();
    plan.of(direction).large_from = 0;  // so that one of the next two is taken
    plan.of(direction).whole_lines.fill(choice);
    plan.of(direction).cut_lines.fill(choice);
    return direction == Direction::gather ? kernels::plan_gather(table, index_.data(), out, plan)
                                          : kernels::plan_scatter(out, index_.data(), table, plan);
  }

  /// Other rows each time, so that few are left in a cache; none twice, which two threads would write at
  /// once.
  void draw(std::int64_t count, std::int64_t rows) {
    const auto bits = std::bit_width(static_cast<std::uint64_t>(rows)) - 1;
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    const std::uint64_t turn = random_(), factor = random_() | 1;
    index_.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < index_.size(); ++i) {
      // Each step maps the numbers of so many bits to themselves, one to one.
      std::uint64_t row = (i ^ turn) & mask;
      for (int step = 0; step < 3; ++step) {
        row = row * factor & mask;
        row ^= row >> (bits / 2 + 1);
      }
      index_[i] = static_cast<std::int64_t>(row);
    }
  }

  void read(const std::byte* from, std::int64_t bytes) {
    read_.fetch_add(word_sum(from, bytes), std::memory_order_relaxed);
  }

  const std::int64_t kThreads = thread_count();
  const std::int64_t table_bytes_;

  Lines table_, out_;
  std::vector<std::int64_t> index_;
  std::mt19937_64 random_{1};
  std::atomic<std::uint64_t> read_{0};  ///< so that the compiler leaves the reading in
};

/// A choice and the least time that it took.
struct Candidate {
  RowChoice choice;
  double best_s = std::numeric_limits<double>::infinity();
};

/// A width to measure, and the class that it stands for.
struct Cell {
  Direction direction;
  Kind kind;
  std::int64_t row_bytes;
};

/// Usual widths come first, because the time may be spent before the end. Small scatters are left out: their
/// defaults are at least 1.6 times as fast as LibTorch (H5 in docs/kernels.md).
constexpr Cell kCells[] = {
    {Direction::gather, Kind::whole_lines, 512},   {Direction::gather, Kind::whole_lines, 256},
    {Direction::scatter, Kind::whole_lines, 512},  {Direction::gather, Kind::small, 512},
    {Direction::gather, Kind::small, 256},         {Direction::gather, Kind::whole_lines, 128},
    {Direction::gather, Kind::whole_lines, 64},    {Direction::gather, Kind::cut_lines, 656},
    {Direction::gather, Kind::cut_lines, 264},     {Direction::gather, Kind::cut_lines, 160},
    {Direction::gather, Kind::small, 160},         {Direction::gather, Kind::small, 64},
    {Direction::gather, Kind::whole_lines, 768},   {Direction::gather, Kind::whole_lines, 1024},
    {Direction::gather, Kind::whole_lines, 4096},  {Direction::scatter, Kind::whole_lines, 128},
    {Direction::scatter, Kind::whole_lines, 256},  {Direction::scatter, Kind::whole_lines, 64},
    {Direction::scatter, Kind::whole_lines, 768},  {Direction::scatter, Kind::whole_lines, 1024},
    {Direction::scatter, Kind::whole_lines, 4096}, {Direction::gather, Kind::cut_lines, 1160},
    {Direction::gather, Kind::cut_lines, 4100},    {Direction::gather, Kind::cut_lines, 80},
    {Direction::gather, Kind::cut_lines, 16},      {Direction::gather, Kind::cut_lines, 516},
    {Direction::gather, Kind::small, 16},          {Direction::gather, Kind::small, 656},
    {Direction::gather, Kind::small, 1024},        {Direction::gather, Kind::small, 4096},
    {Direction::scatter, Kind::cut_lines, 656},    {Direction::scatter, Kind::cut_lines, 516},
    {Direction::scatter, Kind::cut_lines, 264},    {Direction::scatter, Kind::cut_lines, 4100}};

class Tuner {
 public:
  explicit Tuner(double seconds) : begin_(Clock::now()), seconds_(seconds), bench_(table_bytes(seconds)) {
    tuning_.plan = kernels::default_plan();
  }

  Tuning done() && {
    tune_large_from();
    tune_thread_bytes();
    tune_copies();
    for (const Cell& cell : kCells) {
      if (spent()) break;
      tune_cell(cell);
    }
    tuning_.complete = !spent();
    tuning_.seconds = seconds_since(begin_);
    return std::move(tuning_);
  }

 private:
  /// Less what the measurement takes that is under way.
  bool spent() const { return seconds_since(begin_) > 0.9 * seconds_; }

  void measure(const Cell& cell, Candidate& candidate) {
    const double seconds =
        cell.kind == Kind::small
            ? bench_.seconds_of_small(candidate.choice, cell.row_bytes)
            : bench_.seconds(cell.direction, candidate.choice, cell.row_bytes, kLargeBytes);
    candidate.best_s = std::min(candidate.best_s, seconds);
  }

  /// Two further rounds of all but those that were hopeless in the first, as long as there is time.
  void measure(const Cell& cell, std::vector<Candidate>& candidates) {
    for (auto& candidate : candidates) {
      if (!spent()) measure(cell, candidate);
    }
    for (int round = 0; round < 2; ++round) {
      const double hopeless = kHopeless * least(candidates).best_s;
      for (auto& candidate : candidates) {
        if (spent()) return;
        if (candidate.best_s <= hopeless || &candidate == &candidates.front()) measure(cell, candidate);
      }
    }
  }

  static const Candidate& least(const std::vector<Candidate>& candidates) {
    return *std::min_element(candidates.begin(), candidates.end(),
                             [](const auto& a, const auto& b) { return a.best_s < b.best_s; });
  }

  RowChoice& choice_of(const Cell& cell) {
    auto& of = tuning_.plan.of(cell.direction);
    auto& choices = cell.kind == Kind::small         ? of.small
                    : cell.kind == Kind::whole_lines ? of.whole_lines
                                                     : of.cut_lines;
    return choices[kernels::width_class(cell.row_bytes)];
  }

  static std::vector<Stores> stores_of(const Cell& cell) {
    std::vector<Stores> stores{Stores::cached};
    if (cell.kind == Kind::small) return stores;
    if (cell.kind == Kind::whole_lines || cell.row_bytes >= 512) stores.push_back(Stores::streaming);
    const bool staged = cell.direction == Direction::gather && cell.kind == Kind::cut_lines;
    if (staged && cell.row_bytes <= kernels::kStagedRowBytes) stores.push_back(Stores::staged);
    return stores;
  }

  /// First the stores and where lines wait, then how far ahead they are asked for, and the first of each row.
  void tune_cell(const Cell& cell) {
    auto& choice = choice_of(cell);
    std::vector<Candidate> candidates{{choice}};
    const auto add = [&](RowChoice other) {
      const auto same = [&](const Candidate& candidate) { return candidate.choice == other; };
      if (std::none_of(candidates.begin(), candidates.end(), same)) candidates.push_back({other});
    };
    for (const Stores stores : stores_of(cell)) {
      for (const auto level : {PrefetchTo::l1, PrefetchTo::l2})
        add({stores, level, choice.lines_ahead, 1, choice.touch});
    }
    measure(cell, candidates);
    if (spent()) return;
    auto best = least(candidates).choice;
    const bool reads_nothing = cell.direction == Direction::scatter && best.stores == Stores::streaming &&
                               cell.kind == Kind::whole_lines;
    if (!reads_nothing) {
      const auto refine = [&](const std::vector<RowChoice>& others) {
        candidates.erase(candidates.begin() + 1, candidates.end());
        add(best);  // unless it is the default, which would compete with itself and seem to gain
        for (const auto& other : others) add(other);
        measure(cell, candidates);
        best = least(candidates).choice;
      };
      const auto ahead = [&best](std::int32_t lines, std::int32_t step = 1) {
        return RowChoice{best.stores, best.prefetch_to, lines, step, best.touch};
      };
      const auto touched = [&best](std::int32_t touch) {
        return RowChoice{best.stores, best.prefetch_to, best.lines_ahead, best.line_step, touch};
      };
      const bool interleaves = cell.direction == Direction::gather && cell.kind != Kind::small &&
                               cell.row_bytes > (cell.kind == Kind::whole_lines ? 1024 : 512);
      std::vector<RowChoice> others{ahead(32), ahead(64), ahead(128), ahead(256), ahead(512)};
      if (cell.row_bytes > 1024) others.push_back(ahead(best.lines_ahead, 4));
      if (interleaves) others.insert(others.end(), {kernels::kInterleaved, kernels::kInterleavedNear});
      refine(others);
      if (!spent()) refine({touched(0), touched(2), touched(4)});
    }
    take(cell, choice, candidates);
  }

  void take(const Cell& cell, RowChoice& choice, const std::vector<Candidate>& candidates) {
    const Candidate& standard = candidates.front();
    const Candidate& best = least(candidates);
    const Candidate& chosen = best.best_s < kWorth * standard.best_s ? best : standard;
    tuning_.choices.push_back({cell.direction, name_of(cell.kind), cell.row_bytes, standard.choice,
                               chosen.choice, standard.best_s, chosen.best_s});
    choice = chosen.choice;
  }

  /// Finds the size of the output from which streaming 512 B rows and reading them is faster. The default
  /// stays unless another size gains 3 %. Before, this search chose 64 MiB where both ways took as long (AMD
  /// EPYC), and gathers that were read afterwards gained 1.05 over LibTorch's at worst instead of 1.30.
  void tune_large_from() {
    constexpr std::int64_t kLeast = std::int64_t{1} << 20, kMost = std::int64_t{32} << 20;
    auto& gather = tuning_.plan.gather;
    const std::int64_t standard = gather.large_from;
    const auto streamed = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(standard)));
    for (auto bytes = streamed; bytes <= kMost && cached_to_streamed(bytes) < kWorth; bytes *= 2)
      gather.large_from = bytes + 1;
    if (gather.large_from == standard) {
      for (auto bytes = streamed / 2; bytes >= kLeast && cached_to_streamed(bytes) > 1 / kWorth; bytes /= 2)
        gather.large_from = bytes;
    }
    tuning_.plan.scatter.large_from = gather.large_from;
  }

  /// The time of a cached output of so many bytes over the time of a streamed one; 1 if the time is spent.
  double cached_to_streamed(std::int64_t bytes) {
    constexpr int kRounds = 5;  // and one that warms the output
    const auto at = kernels::width_class(512);
    Candidate small{tuning_.plan.gather.small[at]}, large{tuning_.plan.gather.whole_lines[at]};
    for (int round = 0; round <= kRounds; ++round) {
      for (auto* candidate : {&small, &large}) {
        if (spent()) return 1;
        const double seconds = bench_.seconds(Direction::gather, candidate->choice, 512, bytes);
        if (round > 0) candidate->best_s = std::min(candidate->best_s, seconds);
      }
    }
    return small.best_s / large.best_s;
  }

  void tune_thread_bytes() {
    if (thread_count() < 2) return;
    const auto& choice = tuning_.plan.gather.small[kernels::width_class(256)];
    const auto found = fewest_bytes_to_share(
        [&](int threads, std::int64_t bytes) { return bench_.seconds_on(threads, choice, 256, bytes); },
        [this] { return spent(); });
    if (found) tuning_.plan.thread_bytes = *found;
  }

  /// The fastest way to copy a block, by its pages.
  void tune_copies() {
    if (spent()) return;
    tuning_.plan.copy_small_pages = fastest_copy(Pages::usual);
    if (!spent()) tuning_.plan.copy_huge_pages = fastest_copy(Pages::huge);
  }

  static kernels::CopyWay fastest_copy(Pages pages) {
    constexpr std::int64_t kBytes = std::int64_t{16} << 20;
    const Lines from(kBytes, pages), to(kBytes, pages);
    std::array<std::pair<double, kernels::CopyWay>, 3> ways{
        {{1e9, kernels::CopyWay::plain}, {1e9, kernels::CopyWay::ahead}, {1e9, kernels::CopyWay::pages}}};
    for (int round = 0; round < 4; ++round) {
      for (auto& [least_s, way] : ways) least_s = std::min(least_s, seconds_of_copy(to, from, kBytes, way));
    }
    return std::min_element(ways.begin(), ways.end())->second;
  }

  static double seconds_of_copy(const Lines& to, const Lines& from, std::int64_t bytes,
                                kernels::CopyWay way) {
    const std::int64_t lines = bytes / kLineBytes;
    const auto begin = Clock::now();
    parallel_for(lines, (lines + thread_count() - 1) / thread_count(),
                 [&](std::int64_t first, std::int64_t last) {
                   kernels::stream_lines(to.data() + first * kLineBytes, from.data() + first * kLineBytes,
                                         last - first, way);
                 });
    return seconds_since(begin);
  }

  Clock::time_point begin_;
  double seconds_;
  Bench bench_;
  Tuning tuning_;
};

constexpr std::int64_t kLeastToShare = 64 << 10, kMostToShare = 1 << 20;

double median(std::vector<double>& odd_count) {
  const auto middle = odd_count.begin() + static_cast<std::ptrdiff_t>(odd_count.size() / 2);
  std::nth_element(odd_count.begin(), middle, odd_count.end());
  return *middle;
}

/// True if two threads move so many bytes faster than one. Nothing if the time is spent, or if the second
/// core was busy in most rounds: a plan that was tuned beside two compilers kept gathers of up to 1 MiB on
/// one thread, and LibTorch took 0.52 of their time. The core is free if two threads take at most 0.75 of
/// one's time for 1 MiB in the same round.
std::optional<bool> sharing_pays(const std::function<double(int threads, std::int64_t bytes)>& seconds,
                                 const std::function<bool()>& spent, std::int64_t bytes) {
  constexpr std::size_t kRounds = 11;
  constexpr int kMostRounds = 40;
  constexpr double kFree = 0.75;
  std::vector<double> alone, shared;
  for (int round = 0; round < kMostRounds; ++round) {
    if (spent()) return std::nullopt;
    const double one = seconds(1, bytes), two = seconds(2, bytes);
    if (seconds(2, kMostToShare) > kFree * seconds(1, kMostToShare)) continue;
    alone.push_back(one);
    shared.push_back(two);
    if (alone.size() == kRounds) return median(shared) <= kWorth * median(alone);
  }
  return std::nullopt;
}

void store(Tuning& tuning) {
  const auto path = stored_plan_path();
  if (path.empty()) {
    tuning.not_stored = "neither XDG_CACHE_HOME nor HOME names a folder";
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(parent_folder(path), error);
  if (error) {
    tuning.not_stored = "the folder in the user's cache cannot be made: " + error.message();
    return;
  }
  try {
    write_plan(path, tuning.plan);
    tuning.stored = path;
  } catch (const FileError& refused) {
    tuning.not_stored = refused.what();
  }
}

}  // namespace

/// Threads gain more the more there is to move, so the smallest size that gains decides. To look for the
/// largest that does not let one busy moment of the second core put 1 MiB here, and a 768 KiB gather then
/// took 1.9 times as long as LibTorch's.
std::optional<std::int64_t> fewest_bytes_to_share(
    const std::function<double(int threads, std::int64_t bytes)>& seconds,
    const std::function<bool()>& spent) {
  std::optional<std::int64_t> fewest;
  for (std::int64_t bytes = kMostToShare; bytes >= kLeastToShare; bytes /= 2) {
    const auto pays = sharing_pays(seconds, spent, bytes);
    if (!pays) return std::nullopt;
    if (!*pays) break;
    fewest = bytes;
  }
  return fewest;
}

Tuning tune(const TuneOptions& options) {
  auto tuning = Tuner(options.seconds).done();
  use_host_plan(tuning.plan, "tuned");
  if (options.store) store(tuning);
  return tuning;
}

}  // namespace speedtorch

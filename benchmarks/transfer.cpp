/// The transfer suite: how fast rows move between a table in any placement and a LibTorch tensor.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "benchmarks/arena.h"
#include "benchmarks/method.h"
#include "benchmarks/suite.h"
#include "benchmarks/transfer_axes.h"
#include "benchmarks/transfer_case.h"
#include "benchmarks/transfer_indices.h"
#include "benchmarks/transfer_plan.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "reports/statistics.h"
#include "speedtorch/error.h"
#include "speedtorch/pages.h"
#include "speedtorch/threads.h"

namespace stbench {
namespace {

using harness::Check;
using harness::Contestant;
using reports::Identity;
using reports::Record;
using reports::Status;

speedtorch::Placement placement_of(const std::string& name) {
  using enum speedtorch::Placement;
  for (const auto placement : {libtorch, pageable, hugepage, mapped, pinned, device}) {
    if (to_string(placement) == name) return placement;
  }
  throw UsageError("unknown placement '" + name + "'");
}

const Method& method_of(const Identity& id) {
  return *std::find_if(methods().begin(), methods().end(),
                       [&](const Method& m) { return m.name == id.method; });
}

/// What the groups of one run share: filled tables and drawn index sets.
struct TransferRun {
  explicit TransferRun(std::uint64_t seed) : tables(seed) {}
  TableStore tables;
  TransferIndices indices;
};

/// The epochs of one case's values: `from` writes one set of values for good, a round trip fresh ones each
/// time.
struct Epochs {
  bool fresh = false;
  std::uint64_t last = 1;
  std::array<std::uint64_t, harness::index_sets> of{};

  std::uint64_t next(int set) { return of[static_cast<std::size_t>(set)] = fresh ? ++last : last; }
  [[nodiscard]] std::uint64_t now(int set) const { return of[static_cast<std::size_t>(set)]; }
};

Contestant to_contestant(const Identity& id, const Method& method, const std::shared_ptr<Arena>& arena) {
  const auto pattern = method.pattern;
  Contestant one(
      id, method.role, [arena, &method](int set) { method.to(*arena, set); },
      [arena, pattern](int set) { return arena->check_model(pattern, set, 0); });
  one.prepare = [arena, pattern](int set) { arena->prepare_values(pattern, set, 0); };
  one.poison = [arena](int) { arena->poison_model(); };
  return one;
}

Contestant from_contestant(const Identity& id, const Method& method, const std::shared_ptr<Arena>& arena) {
  const auto pattern = method.pattern;
  const auto epochs = std::make_shared<Epochs>();
  Contestant one(
      id, method.role, [arena, &method](int set) { method.from(*arena, set); },
      [arena, pattern, epochs](int set) { return arena->check_table(pattern, set, epochs->now(set)); });
  one.prepare = [arena, pattern, epochs](int set) { arena->prepare_values(pattern, set, epochs->next(set)); };
  one.poison = [arena, pattern](int set) { arena->poison_rows(pattern, set); };
  return one;
}

Contestant round_trip_contestant(const Identity& id, const Method& method,
                                 const std::shared_ptr<Arena>& arena) {
  const auto pattern = method.pattern;
  const auto epochs = std::make_shared<Epochs>();
  epochs->fresh = true;
  Contestant one(
      id, method.role,
      [arena, &method](int set) {
        method.from(*arena, set);
        method.to(*arena, set);
      },
      [arena, pattern, epochs](int set) {
        auto check = arena->check_model(pattern, set, epochs->now(set));
        merge(check, arena->check_table(pattern, set, epochs->now(set)));
        return check;
      });
  one.prepare = [arena, pattern, epochs](int set) { arena->prepare_values(pattern, set, epochs->next(set)); };
  one.poison = [arena, pattern](int set) {
    arena->poison_model();
    arena->poison_rows(pattern, set);
  };
  return one;
}

Contestant contestant_for(const Identity& id, const std::shared_ptr<Arena>& arena) {
  const auto& method = method_of(id);
  auto one = id.direction == "to"     ? to_contestant(id, method, arena)
             : id.direction == "from" ? from_contestant(id, method, arena)
                                      : round_trip_contestant(id, method, arena);
  const int ways = id.direction == "round_trip" ? 2 : 1;
  one.finish = [arena] { arena->finish(); };
  one.payload_bytes = ways * arena->payload_bytes();
  one.index_bytes = method.pattern == Pattern::indexed ? ways * arena->index_bytes() : 0;
  // Cached rows are honestly faster than a copy, so only distinct ones are judged by it.
  one.judged_by_ceiling =
      method.pattern == Pattern::indexed && (id.distribution == "unique" || id.distribution == "sequential");
  return one;
}

class TransferGroup final : public Group {
 public:
  TransferGroup(TransferPlan::Cases plan, std::shared_ptr<TransferRun> run, std::vector<int> cpus)
      : run_(std::move(run)), cpus_(std::move(cpus)) {
    cases = std::move(plan.cases);
    seconds = plan.seconds;
    const auto& first = cases.front();
    title =
        fmt::format("{} {} {}×{}, {} core{}", first.direction, first.dtype, harness::short_count(first.rows),
                    first.dim, first.cores, first.cores == 1 ? "" : "s");
  }

  std::vector<Contestant> prepare() override {
    speedtorch::set_threads(static_cast<int>(cases.front().cores), cpus_);
    const auto indices = run_->indices.sets(cases.front(), run_->tables.seed());
    std::vector<Contestant> contestants;
    for (const auto& id : cases) {
      const auto arena = arena_for(id, indices);
      if (!arena) continue;
      contestants.push_back(contestant_for(id, arena));
      contestants.back().more = {{"pages_got", pages_[id.placement]}, {"throttled", std::monostate{}}};
    }
    return contestants;
  }

  void close(std::vector<Record>& records) override {
    for (auto& [placement, arena] : arenas_) {
      const auto check = arena->close();
      for (auto& record : records) {
        if (record.id.placement != placement ||
            (record.status != Status::ok && record.status != Status::unstable))
          continue;
        if (check.mismatches > 0 && record.id.direction != "to") condemn(record, check);
      }
    }
    arenas_.clear();
    for (const auto& id : cases) {
      if (const auto without = unusable_.find(id.placement); without != unusable_.end())
        records.push_back(failed(id, without->second));
    }
  }

 private:
  /// The arena of a case's placement; nothing where that placement cannot be had, which the others survive.
  std::shared_ptr<Arena> arena_for(const Identity& id,
                                   const std::shared_ptr<const Arena::IndexSets>& indices) {
    if (unusable_.contains(id.placement)) return nullptr;
    try {
      auto& arena = arenas_[id.placement];
      if (!arena) arena = make_arena(id, indices);
      return arena;
    } catch (const std::exception& error) {
      arenas_.erase(id.placement);
      unusable_[id.placement] = without_table_folder(error.what());
      return nullptr;
    }
  }

  /// One line that names no folder, as it goes into reports.
  static std::string without_table_folder(std::string reason) {
    constexpr std::string_view instead = "TMPDIR or /var/tmp";
    const auto folder = table_folder();
    for (auto at = reason.find(folder); at != std::string::npos;
         at = reason.find(folder, at + instead.size()))
      reason.replace(at, folder.size(), instead);
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    return reason;
  }

  static Record failed(const Identity& id, const std::string& reason) {
    Record record;
    record.id = id;
    record.status = Status::failed;
    record.reason = reason;
    return record;
  }

  std::shared_ptr<Arena> make_arena(const Identity& id,
                                    const std::shared_ptr<const Arena::IndexSets>& indices) {
    const auto placement = placement_of(id.placement);
    const at::Device device(speedtorch::needs_cuda(placement) ? id.device : "cpu");
    const bool alone = std::all_of(cases.begin(), cases.end(),
                                   [&](const Identity& other) { return other.placement == id.placement; });
    if (alone) run_->tables.keep_only(placement);
    const auto bytes = shape_of(id).bytes();
    auto memory = run_->tables.filled(placement, bytes, device);
    if (memory->on_host()) pages_[id.placement] = speedtorch::pages_got(memory->data(), bytes);
    if (placement == speedtorch::Placement::mapped) confirm_resident(*memory, bytes);
    return std::make_shared<Arena>(id, std::move(memory), indices, run_->tables.seed());
  }

  /// A warm file's pages are in memory, or the row does not say what its name says.
  static void confirm_resident(const speedtorch::Memory& memory, std::int64_t bytes) {
    const double resident = speedtorch::resident_fraction(memory.data(), bytes);
    if (resident < 0.999) {
      throw speedtorch::MemoryError(fmt::format(
          "only {:.1f} % of the mapped file's pages are in memory; free memory or use fewer --rows",
          resident * 100));
    }
  }

  /// A write outside the touched rows: no case of the cell can be trusted, as it is not known whose it was.
  static void condemn(Record& record, const Check& check) {
    record.status = Status::wrong;
    record.reason = fmt::format("a case of this cell wrote outside its rows: {} of {} rows differ: {}",
                                check.mismatches, check.rows, check.first);
    record.mismatches += check.mismatches;
    reports::summarise(record);
  }

  std::shared_ptr<TransferRun> run_;
  std::vector<int> cpus_;
  std::map<std::string, std::shared_ptr<Arena>> arenas_;
  std::map<std::string, std::string> pages_;
  std::map<std::string, std::string> unusable_;  ///< placements that cannot be had, and why
};

Plan plan(const Options& given, const harness::Machine& machine) {
  const auto options = options_for_case(given);
  const auto run = std::make_shared<TransferRun>(options.seed);
  auto transfer = plan_transfer(options, machine, run->indices);
  Plan result;
  result.waived = std::move(transfer.waived);
  for (auto& cases : transfer.groups) {
    result.groups.push_back(std::make_unique<TransferGroup>(std::move(cases), run, machine.allowed_cpus));
  }
  return result;
}

/// The sum of the two medians: no samples of its own, the worse status, the smaller number of verified rows.
Record sum_of(const Record& to, const Record& from) {
  Record sum;
  sum.id = to.id;
  sum.id.direction = "sum";
  sum.status = reports::worse(to.status, from.status);
  sum.reason = to.status == sum.status ? to.reason : from.reason;
  if (to.median_s && from.median_s) sum.median_s = *to.median_s + *from.median_s;
  sum.payload_bytes = to.payload_bytes + from.payload_bytes;
  sum.index_bytes = to.index_bytes + from.index_bytes;
  sum.verified_rows = std::min(to.verified_rows, from.verified_rows);
  sum.mismatches = to.mismatches + from.mismatches;
  sum.more = {{"repeat", std::monostate{}}, {"pages_got", std::monostate{}}, {"throttled", std::monostate{}}};
  return sum;
}

void add_sums(std::vector<Record>& records, const Options& given) {
  const auto options = options_for_case(given);
  const auto directions = directions_of(options);
  if (std::find(directions.begin(), directions.end(), "sum") == directions.end()) return;
  std::vector<Record> sums;
  for (const auto& to : records) {
    if (to.id.suite != "transfer" || to.id.direction != "to" || to.status == Status::waived) continue;
    auto twin = to.id;
    twin.direction = "from";
    const auto from =
        std::find_if(records.begin(), records.end(), [&](const Record& r) { return r.id == twin; });
    if (from != records.end() && from->status != Status::waived) sums.push_back(sum_of(to, *from));
  }
  records.insert(records.end(), sums.begin(), sums.end());
}

std::vector<AxisInfo> describe() {
  using namespace transfer_axes;
  const auto list = [](const std::vector<std::string>& names) {
    return fmt::format("{}", fmt::join(names, " "));
  };
  std::vector<std::string> names;
  for (const auto& method : methods()) names.push_back(method.name);
  return {{"direction", list(directions()), "all"},
          {"placement", list(placements()), "all"},
          {"method", list(names), "all"},
          {"device", "cpu cuda:N", "cpu, and cuda:0 where there is one"},
          {"dtype", list(dtypes()), "float32"},
          {"row-bytes", "any number, instead of dim and dtype", "-"},
          {"index-dtype", list(index_dtypes()), "int64"},
          {"distribution", "uniform unique sequential sorted zipf:S file:PATH", "unique"},
          {"rows", "any number", "1M"},
          {"dim", "any number", "128"},
          {"batch", "any number", "131072"},
          {"cores", "1 to what the process may use", "1 and all"}};
}

const RegisterSuite registration{{
    .name = "transfer",
    .summary = "rows of a table into a LibTorch tensor and back",
    .axes = transfer_axes::further(),
    .describe = describe,
    .plan = plan,
    .derive = add_sums,
}};

}  // namespace
}  // namespace stbench

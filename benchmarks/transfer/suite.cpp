/// The transfer suite: how fast rows move between a table in any placement and a LibTorch tensor.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "benchmarks/peers/peers.h"
#include "benchmarks/suite/devices.h"
#include "benchmarks/suite/option_spec.h"
#include "benchmarks/suite/plainly.h"
#include "benchmarks/suite/suite.h"
#include "benchmarks/suite/sums.h"
#include "benchmarks/tables/table_store.h"
#include "benchmarks/transfer/arena.h"
#include "benchmarks/transfer/axes.h"
#include "benchmarks/transfer/both_ways.h"
#include "benchmarks/transfer/callers_at_once.h"
#include "benchmarks/transfer/case.h"
#include "benchmarks/transfer/cold.h"
#include "benchmarks/transfer/files_environment.h"
#include "benchmarks/transfer/indices.h"
#include "benchmarks/transfer/method.h"
#include "benchmarks/transfer/plan.h"
#include "benchmarks/transfer/workload.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "harness/sentence.h"
#include "reports/statistics/statistics.h"
#include "reports/style.h"
#include "reports/tables/sweep_tables.h"
#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/kernels/isa.h"
#include "speedtorch/system/pages.h"
#include "speedtorch/threads.h"

namespace stbench {
namespace {

using harness::Check;
using harness::Contestant;
using reports::Identity;
using reports::Record;
using reports::Status;

const Method& method_of(const Identity& id) {
  return *std::find_if(methods().begin(), methods().end(),
                       [&](const Method& m) { return m.name == id.method; });
}

/// What the groups of one run share: filled tables and drawn index sets.
struct TransferRun {
  TransferRun(std::uint64_t seed, const harness::Machine& machine)
      : tables(seed, machine.memory_available), last_level_cache(machine.last_level_cache_bytes) {}
  /// Made when the first cold case needs it.
  std::shared_ptr<CacheWalk> cache_walk() {
    if (!walk) walk = std::make_shared<CacheWalk>(last_level_cache);
    return walk;
  }
  TableStore tables;
  std::int64_t last_level_cache;
  std::shared_ptr<CacheWalk> walk;
  TransferIndices indices;
};

/// The epochs of one case's values: a round trip writes fresh ones each time. `from` writes what the table
/// was filled with, epoch 0: checked rows are poisoned first, so a row that was not written is seen all the
/// same, and the table needs no new fill after each cell.
struct Epochs {
  bool fresh = false;
  std::uint64_t last = 0;
  std::array<std::uint64_t, harness::index_sets> of{};

  std::uint64_t next(int set) { return of[static_cast<std::size_t>(set)] = fresh ? ++last : last; }
  [[nodiscard]] std::uint64_t now(int set) const { return of[static_cast<std::size_t>(set)]; }
};

/// What one case does, by its direction. `from` ends with the table's rows written, `to` with the model
/// tensor.
class Steps {
 public:
  std::shared_ptr<Arena> arena;
  const Method* method;
  std::string direction;
  Method::Elsewhere elsewhere;             ///< empty where the method runs in this process
  std::shared_ptr<BothWays> both;          ///< of that direction
  std::shared_ptr<CallersAtOnce> callers;  ///< of a case with several
  std::shared_ptr<Epochs> epochs = std::make_shared<Epochs>();

  [[nodiscard]] bool writes() const { return direction != "to"; }
  [[nodiscard]] bool reads() const { return direction != "from"; }
  [[nodiscard]] std::uint64_t epoch(int set) const { return writes() ? epochs->now(set) : 0; }

  void run(int set) const {
    if (elsewhere) {
      elsewhere(set, 1);
      return;
    }
    if (both) return both->run(set);
    if (callers) {
      seconds_at_once(set, 1);
      return;
    }
    run_in(*arena, set);
  }
  /// Of rounds of all callers, over rotating sets.
  double seconds_at_once(int first, int rounds) const {
    return callers->run(first, rounds, [this](Arena& part, int set) { run_in(part, set); });
  }
  /// A case whose run breaks off leaves poison behind; others must not be blamed for it.
  void run_or_mend(int set) const {
    try {
      plainly([&] { run(set); });
    } catch (...) {
      if (writes()) arena->mend(method->pattern, set);
      throw;
    }
  }
  void prepare(int set) const {
    if (writes()) {
      arena->prepare_values(method->pattern, set, epochs->next(set));
    } else {
      arena->forget_result();
    }
  }
  void poison(int set) const {
    if (both) return both->poison(set);
    if (reads()) arena->poison_model();
    if (writes()) arena->poison_rows(method->pattern, set);
  }
  [[nodiscard]] Check verify(int set) const {
    auto check = verify_named(set);
    if (!writes()) return check;
    const auto others = arena->check_others(method->pattern, set);
    if (check.mismatches == 0 && others.mismatches > 0 && is_innocent(set)) {
      arena->remember(others);
    } else {
      merge(check, others);
    }
    return check;
  }

 private:
  void run_in(Arena& one, int set) const {
    if (writes()) method->from(one, set);
    if (reads()) method->to(one, set);
  }

  [[nodiscard]] Check verify_named(int set) const {
    if (both) return both->verify(set);
    Check check;
    if (reads()) check = arena->check_model(method->pattern, set, epoch(set), method->equality);
    if (writes()) merge(check, arena->check_named(method->pattern, set, epoch(set)));
    return check;
  }

  /// Rows that were not named differ: another case's samples may have done it, whose own check comes later.
  /// So this one shows once more, on the mended table, what it does.
  [[nodiscard]] bool is_innocent(int set) const {
    poison(set);
    prepare(set);
    run_or_mend(set);
    arena->finish();
    return verify_named(set).mismatches == 0 && arena->check_others(method->pattern, set).mismatches == 0;
  }
};

/// Seconds of operations in another process, or of several callers. Where they break off, no set of theirs
/// can be trusted.
double run_elsewhere_or_mend(const Steps& steps, int first, int repeat) {
  double seconds = 0;
  try {
    plainly([&] {
      seconds = steps.callers ? steps.seconds_at_once(first, repeat) : steps.elsewhere(first, repeat);
    });
  } catch (...) {
    for (int k = 0; steps.writes() && k < std::min(repeat, harness::index_sets); ++k)
      steps.arena->mend(steps.method->pattern, (first + k) % harness::index_sets);
    throw;
  }
  return seconds;
}

/// The cache that could hold a payload and so make it honestly faster than memory.
std::int64_t cache_bytes(const Identity& id, std::int64_t host_cache) {
  return id.device == "cpu" ? host_cache : speedtorch::cuda_cache_bytes(at::Device(id.device));
}

/// Up to so many rows an operation its latency is what a user waits for, not the bandwidth.
constexpr std::int64_t small_batch = 4096;

Contestant contestant_for(const Identity& id, const std::shared_ptr<Arena>& arena,
                          const std::shared_ptr<Callers>& callers, std::int64_t host_cache) {
  const auto& method = method_of(id);
  Steps steps{arena, &method, id.direction, method.open ? method.open(arena, id) : nullptr};
  if (id.direction == "both") steps.both = std::make_shared<BothWays>(*arena, method);
  if (callers) steps.callers = std::make_shared<CallersAtOnce>(*arena, callers);
  steps.epochs->fresh = id.direction == "round_trip";
  Contestant one(
      id, method.role, [steps](int set) { steps.run_or_mend(set); },
      [steps](int set) { return steps.verify(set); });
  one.prepare = [steps](int set) { plainly([&] { steps.prepare(set); }); };
  one.poison = [steps](int set) { plainly([&] { steps.poison(set); }); };
  one.finish = [arena] { arena->finish(); };
  if (steps.elsewhere || steps.callers)
    one.own_clock = [steps](int first, int repeat) { return run_elsewhere_or_mend(steps, first, repeat); };
  const int ways = id.direction == "round_trip" ? 2 : 1;
  one.payload_bytes = ways * arena->payload_bytes();
  one.index_bytes = method.pattern == Pattern::indexed ? ways * arena->index_bytes() : 0;
  one.latency = id.batch <= small_batch && id.direction != "both" && !callers;
  one.repeatable = !steps.writes() || arena->rotates_values();
  // Cached rows are honestly faster than a copy, so only distinct ones are judged by it, and only where they
  // cannot lie in a cache.
  const bool distinct = id.distribution == "unique" || id.distribution == "sequential";
  one.judged_by_ceiling =
      method.pattern == Pattern::indexed && distinct && arena->payload_bytes() > cache_bytes(id, host_cache);
  return one;
}

/// Each sample is then one run: a second one would find what the first has brought.
void make_cold_before(Contestant& one, const std::shared_ptr<Cold>& cold) {
  one.prepare = [prepare = one.prepare, cold](int set) {
    prepare(set);
    plainly([&] { cold->evict(); });
  };
  one.repeatable = false;
  one.latency = false;
}

/// The table is not as its cases should have left it: none can be trusted, as it is not known whose it was.
void condemn(Record& record, const Check& check, const char* who) {
  record.status = Status::wrong;
  record.reason = reports::one_line(fmt::format("a case of {} damaged the table: {} of {} rows differ: {}",
                                                who, check.mismatches, check.rows, check.first));
  record.mismatches += check.mismatches;
  reports::summarise(record);
}

/// What the last check of a table that several groups used has found becomes part of all their records.
void condemn_users(TableStore& tables, std::vector<Record>& records) {
  for (const auto& damage : tables.take_damage()) {
    for (auto& record : records) {
      const bool used = std::find(damage.users.begin(), damage.users.end(), record.id) != damage.users.end();
      if (used && reports::has_numbers(record.status))
        condemn(record, damage.check, "the cells that used it");
    }
  }
}

class TransferGroup final : public TimedGroup {
 public:
  TransferGroup(TransferPlan::Cases plan, std::shared_ptr<TransferRun> run, const harness::Machine& machine)
      : run_(std::move(run)), cpus_(machine.allowed_cpus), host_cache_(machine.last_level_cache_bytes) {
    cases = std::move(plan.cases);
    seconds = plan.seconds;
    const auto& first = cases.front();
    title = fmt::format("{} {} {}×{}, {} core{}{}", first.direction, first.dtype,
                        harness::short_count(first.rows), first.dim, first.cores, first.cores == 1 ? "" : "s",
                        is_cold(first) ? ", cold" : "");
    if (const auto callers = callers_of(first); callers > 1) title += fmt::format(", {} callers", callers);
  }

  std::vector<Contestant> prepare() override {
    const auto cores = static_cast<int>(cases.front().cores);
    const auto count = static_cast<int>(callers_of(cases.front()));
    // Callers have pools of their own, and which node a CPU of the usual one is on says nothing of theirs.
    speedtorch::set_threads(cores, count > 1 ? std::vector<int>{} : cpus_);
    if (count > 1) callers_ = std::make_shared<Callers>(count, first_cpus(cores));
    speedtorch::kernels::use_isa(std::get<std::string>(*reports::find(cases.front().axes, "isa")));
    const auto indices = run_->indices.sets(cases.front(), run_->tables.seed());
    std::vector<Contestant> contestants;
    for (const auto& id : cases) {
      const auto arena = arena_for(id, indices);
      if (!arena) continue;
      contestants.push_back(contestant_for(id, arena, callers_, host_cache_));
      if (is_cold(id)) make_cold_before(contestants.back(), colds_.at(id.placement));
      const auto pages = pages_.find(id.placement);
      const reports::Value got = pages == pages_.end() ? reports::Value() : reports::Value(pages->second);
      contestants.back().more = {{"pages_got", got}, {"throttled", std::monostate{}}};
    }
    return contestants;
  }

  void close(std::vector<Record>& records) override {
    callers_.reset();
    try {
      for (auto& [placement, arena] : arenas_)
        plainly([&, &name = placement, &one = arena] { judge(records, name, *one); });
    } catch (...) {
      arenas_.clear();
      memories_.clear();
      run_->tables.clear();  // their content is unknown
      throw;
    }
    arenas_.clear();
    memories_.clear();
    for (const auto& id : cases) {
      if (const auto without = unusable_.find(id.placement); without != unusable_.end())
        records.push_back(reports::unmeasured(id, without->second.status, without->second.reason));
    }
  }

 private:
  [[nodiscard]] std::vector<int> first_cpus(int count) const {
    return {cpus_.begin(), cpus_.begin() + std::min<std::ptrdiff_t>(count, std::ssize(cpus_))};
  }

  /// The arena of a case's placement; nothing where that placement cannot be had, which the others survive.
  std::shared_ptr<Arena> arena_for(const Identity& id, const std::shared_ptr<const IndexSets>& indices) {
    if (unusable_.contains(id.placement)) return nullptr;
    try {
      auto& arena = arenas_[id.placement];
      if (!arena) plainly([&] { arena = make_arena(id, indices); });
      return arena;
    } catch (const CannotEvict& error) {
      arenas_.erase(id.placement);
      unusable_[id.placement] = {Status::waived, error.what()};
      return nullptr;
    } catch (const std::exception& error) {
      arenas_.erase(id.placement);
      unusable_[id.placement] = {Status::failed, without_table_folder(error.what())};
      return nullptr;
    }
  }

  /// The reason without the folder's name, as it goes into reports.
  static std::string without_table_folder(std::string reason) {
    constexpr std::string_view instead = "TMPDIR or /var/tmp";
    const auto folder = table_folder();
    for (auto at = reason.find(folder); at != std::string::npos;
         at = reason.find(folder, at + instead.size()))
      reason.replace(at, folder.size(), instead);
    return reason;
  }

  std::shared_ptr<Arena> make_arena(const Identity& id, const std::shared_ptr<const IndexSets>& indices) {
    const auto placement = placement_of(id.placement);
    const at::Device device(speedtorch::needs_cuda(placement) ? id.device : "cpu");
    const bool alone = std::all_of(cases.begin(), cases.end(),
                                   [&](const Identity& other) { return other.placement == id.placement; });
    if (alone) run_->tables.keep_only(placement);
    const auto bytes = shape_of(id).bytes();
    const bool shared = std::any_of(cases.begin(), cases.end(), [&](const Identity& other) {
      return other.placement == id.placement && method_of(other).open;
    });
    auto memory = run_->tables.filled(placement, bytes, device, shared);
    run_->tables.use(*memory, cases_in(id.placement));
    memories_[id.placement] = memory;
    if (is_cold(id)) {
      auto cold = std::make_shared<Cold>(memory, at::Device(id.device), run_->cache_walk());
      cold->evict();  // where that cannot be done it is said before anything is measured
      colds_[id.placement] = std::move(cold);
    } else if (placement == speedtorch::Placement::mapped) {
      make_warm(*memory);
      confirm_resident(*memory, bytes);
    }
    // The pages of a cold file are none that the table has.
    if (memory->on_host() && (!is_cold(id) || memory->file_fd() < 0))
      pages_[id.placement] = speedtorch::pages_got(memory->data(), bytes);
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

  [[nodiscard]] std::vector<Identity> cases_in(const std::string& placement) const {
    std::vector<Identity> found;
    for (const auto& id : cases) {
      if (id.placement == placement) found.push_back(id);
    }
    return found;
  }

  /// The last check of one placement's table by this group; as a whole where that takes no time.
  void judge(std::vector<Record>& records, const std::string& placement, Arena& arena) {
    const auto of_cell = [&](const Record& record) { return record.id.placement == placement; };
    const auto measured = [](const Record& record) { return reports::has_numbers(record.status); };
    const bool trusted = std::all_of(records.begin(), records.end(),
                                     [&](const Record& r) { return !of_cell(r) || measured(r); });
    const auto& memory = *memories_.at(placement);
    const bool whole = run_->tables.is_small(memory);
    const auto check = arena.close(trusted, whole);
    if (whole || !trusted || check.mismatches > 0)
      run_->tables.checked(memory, shape_of(cases.front()).bytes(), check);
    if (check.mismatches == 0) return;
    for (auto& record : records) {
      if (of_cell(record) && measured(record)) condemn(record, check, "this cell");
    }
  }

  std::shared_ptr<TransferRun> run_;
  std::vector<int> cpus_;
  std::int64_t host_cache_;
  std::shared_ptr<Callers> callers_;  ///< where there are several
  std::map<std::string, std::shared_ptr<Arena>> arenas_;
  std::map<std::string, std::shared_ptr<speedtorch::Memory>> memories_;
  std::map<std::string, std::string> pages_;
  std::map<std::string, std::shared_ptr<Cold>> colds_;
  struct Refusal {
    Status status = Status::failed;
    std::string reason;
  };
  std::map<std::string, Refusal> unusable_;  ///< placements that cannot be had, and why
};

/// What is waived and warned of, each once a placement, method and device: workloads have the same to say.
void add_new(Plan& plan, TransferPlan& more) {
  const auto said = [&](const Record& record) {
    return std::ranges::any_of(plan.waived, [&](const Record& other) {
      return std::tie(record.id.placement, record.id.method, record.id.device, record.id.direction,
                      record.reason) ==
             std::tie(other.id.placement, other.id.method, other.id.device, other.id.direction, other.reason);
    });
  };
  const bool first = plan.waived.empty();
  for (auto& record : more.waived) {
    if (first || !said(record)) plan.waived.push_back(std::move(record));
  }
  for (auto& warning : more.warnings) {
    if (std::ranges::find(plan.warnings, warning) == plan.warnings.end())
      plan.warnings.push_back(std::move(warning));
  }
}

Plan plan(const Options& given, const harness::Machine& machine) {
  const auto options = options_for_case(given);
  const auto run = std::make_shared<TransferRun>(options.seed, machine);
  Peers::of_this_run().configure(machine.allowed_cpus, options.timeout_s);
  const auto workload_runs = stbench::workload_runs(options, machine);
  Plan result;
  result.last_check = [run] { plainly([&] { run->tables.check_all(); }); };
  result.settle = [run](std::vector<Record>& records) { condemn_users(run->tables, records); };
  std::set<std::string> planned;  // two workloads may have a shape in common
  for (const auto& one : workload_runs) {
    auto transfer = plan_transfer(one.options, machine, table_folder_free(), run->indices);
    add_new(result, transfer);
    for (auto& cases : transfer.groups) {
      std::erase_if(cases.cases,
                    [&](const Identity& id) { return !planned.insert(harness::to_sentence(id, {})).second; });
      if (cases.cases.empty()) continue;
      cases.seconds /= static_cast<double>(workload_runs.size());  // the preset's time is for all of them
      result.groups.push_back(std::make_unique<TransferGroup>(std::move(cases), run, machine));
    }
    if (!one.scale.empty())
      result.warnings.push_back(fmt::format("workload {}: {}", one.workload, one.scale));
  }
  if (auto peers = Peers::of_this_run().versions(); !peers.empty())
    result.environment["peers"] = std::move(peers);
  std::vector<Identity> measured;
  for (const auto& group : result.groups)
    measured.insert(measured.end(), group->cases.begin(), group->cases.end());
  if (auto files = files_environment(measured); !files.empty())
    result.environment["files"] = std::move(files);
  if (auto used = workload_environment(workload_runs); !used.empty())
    result.environment["workloads"] = std::move(used);
  return result;
}

void add_sums_asked_for(std::vector<Record>& records, const Options& given) {
  const auto options = options_for_case(given);
  if (!options.workloads.empty() && options.directions.empty())
    return;  // to and from are what workloads have
  const auto directions = directions_of(options);
  if (std::find(directions.begin(), directions.end(), "sum") != directions.end())
    add_sums(records, "transfer");
}

std::vector<AxisInfo> describe() {
  using namespace transfer_axes;
  const auto list = [](const std::vector<std::string>& names) {
    return fmt::format("{}", fmt::join(names, " "));
  };
  std::vector<std::string> names;
  for (const auto& method : methods()) {
    if (method.role != harness::Role::peer) names.push_back(method.name);
  }
  return {{"direction", list(directions()), "all but both"},
          {"placement", list(placements()), "all"},
          {"method", list(names), "all but those of so many SMs"},
          {"peers", list(peer_names()), "none"},
          {"device", "cpu cuda:N", "cpu, and cuda:0 where there is one"},
          {"dtype", list(dtypes()), "float32"},
          {"row-bytes", "any number, instead of dim and dtype", "-"},
          {"index-dtype", list(index_dtypes()), "int64"},
          {"distribution", "uniform unique sequential sorted zipf:S file:PATH", "unique"},
          {"rows", "any number", "1M"},
          {"dim", "any number", "128"},
          {"batch", "any number", "131072"},
          {"cores", "1 to what the process may use", "1 and all"},
          {"cache", list(caches()), "warm"},
          {"callers", "1 to 1024", "1"},
          {"isa", list(isas()), "best"},
          {"workload", "one of those below, instead of axes", "none"}};
}

std::vector<MethodInfo> method_list() {
  std::vector<MethodInfo> list;
  for (const auto& method : methods())
    list.push_back(
        {method.name, method.summary, method.role, method.asked_only && method.role == harness::Role::peer});
  return list;
}

std::string workload_lines() {
  std::string lines = "  workloads:\n";
  for (const auto& workload : workloads())
    lines += fmt::format("    {:<12} {}\n", workload.name, workload.summary);
  return lines;
}

const RegisterOption workload_option{
    "--workload LIST", "shapes of today's programs: engram-v41, kv-page, ...",
    option_reader::names(&Options::workloads), workload_names,
    R"(stbench list names them. Each sets rows, row bytes, batches, distributions and directions; an axis that is given wins.
       Rows are halved until the tables fit a quarter of the memory and half of what is free. Batches have at most as many
       rows as the table. The report says what was scaled; the width of a row never is.)"};

const RegisterSuite registration{{
    .name = "transfer",
    .summary = "rows of a table into a LibTorch tensor and back",
    .axes = transfer_axes::further(),
    .describe = describe,
    .methods = method_list,
    .directions = transfer_axes::directions(),
    .presets = preset_list(),
    .tables = {reports::movement_tables},
    .more = workload_lines,
    .plan = plan,
    .derive = add_sums_asked_for,
}};

}  // namespace
}  // namespace stbench

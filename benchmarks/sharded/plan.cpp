#include "benchmarks/sharded/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "benchmarks/sharded/group.h"
#include "benchmarks/suite/axes.h"
#include "harness/distribution.h"
#include "harness/errors.h"
#include "harness/numbers.h"

namespace stbench {
namespace {

using reports::Identity;
using Names = std::vector<std::string>;
using Counts = std::vector<std::int64_t>;

/// c10d's Gloo counts the bytes between two ranks in 31 bits, and only ours sends in pieces.
constexpr std::int64_t most_bytes_a_batch = std::int64_t{1} << 30;
constexpr std::int64_t most_ranks = 1024;

struct ShardedPreset {
  Names engines;
  Counts ranks, rows, dims, batches;
  Names distributions, shardings = {"blocks"};
  double seconds = 4;  ///< for one group
};

ShardedPreset sharded_preset(const std::string& name) {
  if (name == "quick") return {{"gloo", "shared"}, {2}, {20'000}, {64}, {2048}, {"uniform"}, {"blocks"}, 1};
  ShardedPreset standard{sharded_engines(), {1, 2, 4},      {200'000},
                         {128, 1024},       {1536, 16'384}, {"uniform", "zipf:1.05"}};
  if (name == "full") standard.shardings = shardings(), standard.seconds = 8;
  return standard;
}

/// Why an engine cannot be measured; empty if it can.
std::string engine_refusal(const std::string& engine) {
  if (engine == "nccl")
    return "not available here: NCCL moves rows between GPUs, and this suite moves them between hosts";
  if (engine == "mpi")
    return "not available here: LibTorch's wheel is built without MPI; mpirun starts ranks of engine gloo, "
           "where --peers mpi_alltoallv goes through MPI";
  return {};
}

std::chrono::milliseconds timeout_of(const Options& options) {
  if (options.timeout_s <= 0) return std::chrono::hours(24);
  constexpr double part = 0.8;  // so that a lost rank is an error of its case before the run gives up
  return std::chrono::milliseconds(
      std::max<std::int64_t>(1, static_cast<std::int64_t>(options.timeout_s * 1000 * part)));
}

Names own_values(const Options& options, const char* option) {
  const auto found = options.own.find(option);
  return found == options.own.end() ? Names() : found->second;
}

template <class T>
auto further_value(const char* name) {
  return [name](Identity& id, const T& value) { reports::set(id.axes, name, value); };
}

class ShardedPlanner {
 public:
  ShardedPlanner(const Options& options, const harness::Machine& machine)
      : options_(options),
        machine_(machine),
        standard_(sharded_preset(options.preset)),
        crew_(std::make_shared<Crew>(machine.allowed_cpus, timeout_of(options))) {
    if (launched_rank(options)) launched_size_ = speedtorch::RankGroup::place_from_environment()->size;
  }

  Plan plan() {
    const auto cells = this->cells();
    if (launched_size_ && !options_.dry_run) join();
    for (const auto& cell : cells) add(cell);
    if (plan_.groups.empty() && plan_.waived.empty()) throw UsageError(nothing_to_do());
    return std::move(plan_);
  }

 private:
  struct Cell {
    Identity id;
    std::string distribution;
  };

  std::vector<Cell> cells() {
    std::vector<Cell> cells;
    for (auto& id : identities()) {
      auto distribution = id.distribution;
      const harness::IndexSource source(harness::parse_distribution(distribution));
      id.distribution = source.recorded_name();
      require(id);
      source.require(id.rows, id.batch);
      cells.push_back({std::move(id), std::move(distribution)});
    }
    return cells;
  }

  std::vector<Identity> identities() {
    if (!options_.case_id.empty()) {
      auto id = case_of(options_.case_id, "sharded");
      only_ = std::exchange(id.method, {});
      return {id};
    }
    std::vector<Identity> all{{.suite = "sharded",
                               .direction = "to",
                               .dtype = "float32",
                               .index_dtype = "int64",
                               .axes = sharded_axes()}};
    cross(all, given_or(own_values(options_, "--engine"), standard_.engines),
          further_value<std::string>("engine"));
    cross(all, ranks(), further_value<std::int64_t>("ranks"));
    cross(all, given_or(own_values(options_, "--sharding"), standard_.shardings),
          further_value<std::string>("sharding"));
    cross(all, given_or(own_values(options_, "--remote"), {"drawn"}), further_value<std::string>("remote"));
    cross(all, given_or(options_.placements, {"pageable"}), &Identity::placement);
    cross(all, given_or(options_.devices, {"cpu"}), &Identity::device);
    cross(all, given_or(options_.rows, standard_.rows), &Identity::rows);
    cross(all, given_or(options_.dims, standard_.dims), &Identity::dim);
    cross(all, given_or(options_.batches, standard_.batches), &Identity::batch);
    cross(all, given_or(options_.distributions, standard_.distributions), &Identity::distribution);
    cross(all, given_or(options_.cores, {1}), &Identity::cores);
    std::vector<Identity> different;
    for (auto& id : all) {
      if (axis<std::string>(id, "engine") == "shared") forget_shards(id);
      add_once(different, id);
    }
    return different;
  }

  /// A table that all ranks share has no shards.
  static void forget_shards(Identity& id) {
    for (const auto& [name, standard] : sharded_axes())
      if (name == "sharding" || name == "remote") reports::set(id.axes, name, standard);
  }

  [[nodiscard]] Counts ranks() const {
    if (launched_size_) return {*launched_size_};
    Counts counts;
    for (const auto& text : own_values(options_, "--ranks"))
      counts.push_back(harness::parse_count(text, "--ranks"));
    return given_or(counts, standard_.ranks);
  }

  /// @throws UsageError for a cell that is impossible
  void require(const Identity& id) const {
    const auto ranks = axis<std::int64_t>(id, "ranks");
    require_positive({{"--rows", id.rows}, {"--dim", id.dim}, {"--batch", id.batch}, {"--ranks", ranks}});
    require_known(id.placement, "--placement", {"pageable", "hugepage"});
    static_cast<void>(remote_share(axis<std::string>(id, "remote")));
    require_known(id.device, "--suite sharded: --device", {"cpu"});
    require_known(id.dtype, "--case: dtype", {"float32"});
    require_known(id.index_dtype, "--case: index dtype", {"int64"});
    if (ranks > most_ranks) throw UsageError(fmt::format("--ranks {}: {} at the most", ranks, most_ranks));
    if (launched_size_ && ranks != *launched_size_)
      throw UsageError(
          fmt::format("the case has {} ranks, and the launcher started {}", ranks, *launched_size_));
    if (id.cores < 1 || id.cores > machine_.allowed_cores)
      throw UsageError(
          fmt::format("--cores {}: use 1 to {}, what the process may use", id.cores, machine_.allowed_cores));
    const speedtorch::RowOwners owners(speedtorch::sharding_of(axis<std::string>(id, "sharding")), id.rows,
                                       static_cast<int>(ranks));
    if (owners.rows_of(static_cast<int>(ranks) - 1) == 0)
      throw UsageError(fmt::format("--rows {}: the last of {} ranks holds none; use more", id.rows, ranks));
    require_size(id);
  }

  void require_size(const Identity& id) const {
    std::int64_t batch = 0;
    if (__builtin_mul_overflow(id.batch, id.dim * 4, &batch) || batch > most_bytes_a_batch)
      throw UsageError(
          fmt::format("a batch of {} × {} float32 has more than {}: use a smaller --batch, since "
                      "LibTorch's ways send all of it at once",
                      id.batch, id.dim, harness::human_bytes(most_bytes_a_batch)));
    if (launched_size_) return;
    const auto needed = needed_bytes(id);
    if (needed <= machine_.memory_available) return;
    throw UsageError(
        fmt::format("{} ranks with {} × {} float32 and batches of {} need {}, {} are available\n"
                    "use fewer --rows or --ranks, or a smaller --batch",
                    axis<std::int64_t>(id, "ranks"), id.rows, id.dim, id.batch, harness::human_bytes(needed),
                    harness::human_bytes(machine_.memory_available)));
  }

  /// The table, or of engine `shared` it and a copy for each rank; and what the methods need on each rank:
  /// eight batches, and of all_gather two for each rank.
  [[nodiscard]] static std::int64_t needed_bytes(const Identity& id) {
    const auto ranks = static_cast<double>(axis<std::int64_t>(id, "ranks"));
    const auto row = static_cast<double>(id.dim) * 4;
    const double tables = axis<std::string>(id, "engine") == "shared" ? ranks + 1 : 1;
    const double needed = tables * static_cast<double>(id.rows) * row +
                          ranks * (8 + 2 * ranks) * static_cast<double>(id.batch) * row;
    return needed < 9e18 ? static_cast<std::int64_t>(needed) : std::numeric_limits<std::int64_t>::max();
  }

  void join() {
    crew_->join();
    std::set<std::string> hosts;
    for (const auto& answer : crew_->of(*launched_size_).ask({{"do", "host"}}))
      hosts.insert(answer.at("host").get<std::string>());
    hosts_ = hosts.size();
  }

  void add(const Cell& cell) {
    const auto engine = axis<std::string>(cell.id, "engine");
    auto reason = engine_refusal(engine);
    if (engine == "shared" && hosts_ > 1)
      reason = fmt::format("the ranks are on {} hosts, and the processes of one share a table", hosts_);
    if (!reason.empty()) return waive(cell.id, reason);
    std::vector<Identity> cases;
    for (const auto& method : sharded_methods()) {
      auto id = cell.id;
      id.method = method.name;
      if (!contains(method.engines, engine) || !takes_part(method) || !method.supports(id)) continue;
      if (const auto why = method.refusal(); !why.empty()) {
        waive(id, why);
      } else {
        cases.push_back(id);
      }
    }
    if (cases.empty()) return;
    warn_of_shared_cores(cell.id);
    plan_.groups.push_back(
        std::make_unique<ShardedGroup>(std::move(cases), cell.distribution, options_.seed, crew_));
    plan_.groups.back()->seconds = standard_.seconds;
  }

  [[nodiscard]] bool takes_part(const ShardedMethod& method) const {
    if (contains(options_.peers, method.name)) return true;
    if (!only_.empty())
      return method.name == only_ || (method.role != harness::Role::ours && !method.asked_only);
    return options_.methods.empty() ? !method.asked_only : contains(options_.methods, method.name);
  }

  /// Once for each engine, and for each method that this process cannot have.
  void waive(Identity id, const std::string& reason) {
    const auto is_same = [&](const reports::Record& record) { return record.reason == reason; };
    if (std::ranges::any_of(plan_.waived, is_same)) return;
    if (id.method.empty()) id.method = only_.empty() ? "speedtorch" : only_;
    plan_.waived.push_back(reports::unmeasured(id, reports::Status::waived, reason));
  }

  void warn_of_shared_cores(const Identity& id) {
    const auto threads = axis<std::int64_t>(id, "ranks") * id.cores;
    if (launched_size_ || threads <= machine_.allowed_cores) return;
    reports::add_once(
        plan_.warnings,
        fmt::format("sharded: {} ranks of {} threads share {} cores, so their times measure the "
                    "scheduler, too",
                    axis<std::int64_t>(id, "ranks"), id.cores, machine_.allowed_cores));
  }

  [[nodiscard]] std::string nothing_to_do() const {
    Names known;
    for (const auto& method : sharded_methods())
      if (!method.asked_only)
        known.push_back(fmt::format("{} ({})", method.name, fmt::join(method.engines, ", ")));
    return fmt::format("--suite sharded: no case is left\nmethods and their engines: {}",
                       fmt::join(known, ", "));
  }

  const Options& options_;
  const harness::Machine& machine_;
  ShardedPreset standard_;
  std::shared_ptr<Crew> crew_;
  std::optional<int> launched_size_;
  std::size_t hosts_ = 1;
  std::string only_;  ///< the method of --case
  Plan plan_;
};

}  // namespace

harness::AxisDefaults sharded_axes() {
  return {{"engine", "gloo"}, {"ranks", std::int64_t{2}}, {"remote", "drawn"}, {"sharding", "blocks"}};
}

Names sharded_engines() { return {"gloo", "node", "shared", "nccl", "mpi"}; }
Names shardings() { return {"blocks", "cyclic", "hashed"}; }

Plan plan_sharded(const Options& options, const harness::Machine& machine) {
  return ShardedPlanner(options, machine).plan();
}

std::optional<int> launched_rank(const Options& options) {
  const auto place = speedtorch::RankGroup::place_from_environment();
  if (!own_values(options, "--ranks").empty()) {
    if (!place || place->size == 1) return std::nullopt;
    throw UsageError(
        fmt::format("a launcher started this process as rank {} of {}: leave out --ranks, or unset "
                    "the launcher's variables",
                    place->rank, place->size));
  }
  return place ? std::optional(place->rank) : std::nullopt;
}

void follow_rank_0(const Options& options) {
  if (options.dry_run) return;
  // A launcher tells all ranks to end at once. Rank 0 writes what it has, and the others end with it.
  for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_IGN);
  const auto timeout = timeout_of(options);
  serve_rank(speedtorch::RankGroup::from_environment({.timeout = timeout}), timeout);
}

}  // namespace stbench

#include "benchmarks/steps/step_suite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>

#include "benchmarks/peers/peers.h"
#include "benchmarks/steps/reference_step.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/devices.h"
#include "benchmarks/suite/option_spec.h"
#include "benchmarks/suite/plainly.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "harness/sampler.h"
#include "reports/statistics/statistics.h"
#include "reports/style.h"
#include "speedtorch/cuda.h"
#include "speedtorch/kernels/isa.h"
#include "speedtorch/threads.h"

namespace stbench {
namespace {

using harness::BenchmarkCase;
using harness::Check;
using reports::Identity;
using reports::Record;
using reports::Status;
using Names = std::vector<std::string>;

/// By suite. Local to a function, because files register in any order.
std::map<std::string, std::vector<StepMethod>>& methods_by_suite() {
  static std::map<std::string, std::vector<StepMethod>> all;
  return all;
}

using Clock = std::chrono::steady_clock;

/// True for a cell of methods that keep rows.
bool has_cache(const Identity& id) {
  const auto* bytes = reports::find(id.axes, "cache_bytes");
  return bytes != nullptr && *bytes != reports::Value(std::int64_t{0});
}

/// The case for the sampler. The fingerprint is taken before each sample and compared after it.
BenchmarkCase runnable_case(const Identity& id, harness::Role role, const std::shared_ptr<Stepper>& stepper,
                            const std::shared_ptr<StepFixture>& fixture) {
  const auto mark = std::make_shared<std::string>();
  BenchmarkCase one(
      id, role,
      [stepper](int set) {
        plainly([&] { stepper->self_timed() ? void(stepper->timed_step(set)) : stepper->step(set); });
      },
      [stepper](int set) { return plainly([&] { return stepper->check(set); }); });
  one.poison = [stepper](int set) { plainly([&] { stepper->remember(set); }); };
  one.prepare = [stepper, fixture, mark](int set) {
    plainly([&] {
      stepper->prepare(set);
      *mark = stepper->fingerprint(set);
      fixture->before_step();
    });
  };
  one.quick_check = [stepper, mark](int set) {
    const bool same = plainly([&] { return !mark->empty() && stepper->fingerprint(set) == *mark; });
    return same ? Check{1, 1, "the step changed nothing"} : Check{};
  };
  if (on_gpu(id)) one.finish = [device = at::Device(id.device)] { speedtorch::synchronize_cuda(device); };
  if (stepper->self_timed()) {
    one.self_timed = [stepper](int first, int repeat) {
      double seconds = 0;
      for (int k = 0; k < repeat; ++k) seconds += stepper->timed_step((first + k) % harness::index_sets);
      return seconds;
    };
  }
  one.in_series = stepper->in_series();
  one.payload_bytes = stepper->payload_bytes();
  one.index_bytes = stepper->index_bytes();
  one.repeatable = false;  // a second step would start from another state than the check knows
  return one;
}

class StepGroup final : public TimedGroup {
 public:
  StepGroup(const StepSuite& suite, StepTerms terms, std::vector<int> cpus)
      : suite_(suite), terms_(std::move(terms)), cpus_(std::move(cpus)) {}

  void add_cell(StepCell cell, const std::vector<Identity>& its_cases) {
    seconds = cell.seconds;
    cells_.push_back(std::move(cell));
    cases.insert(cases.end(), its_cases.begin(), its_cases.end());
    if (!title.empty()) return;
    const auto& first = cases.front();
    title = fmt::format("{} {}×{}", first.suite, harness::short_count(first.rows),
                        harness::short_count(first.dim));
    for (const auto& [axis, value] : first.axes) {
      if (const auto* text = std::get_if<std::string>(&value)) title += " " + *text;
    }
  }

  std::vector<BenchmarkCase> prepare() override {
    speedtorch::set_threads(static_cast<int>(cases.front().cores), cpus_);
    speedtorch::kernels::use_isa("best");
    std::vector<BenchmarkCase> runnable;
    for (const auto& cell : cells_) {
      std::shared_ptr<StepFixture> fixture;
      for (const auto& id : cases) {
        if (!id.same_cell(cell.id)) continue;
        if (!fixture) fixture = plainly([&] { return suite_.fixture(cell.id, terms_); });
        add(runnable, id, fixture);
      }
    }
    return runnable;
  }

  [[nodiscard]] bool concludes() const override { return true; }
  void conclude(Record& record) override {
    for (auto& [id, stepper] : steppers_) {
      if (!(id == record.id) || !reports::has_numbers(record.status)) continue;
      try {
        plainly([&, &one = stepper] { one->conclude(record); });
      } catch (const WrongResult& wrong) {
        mark_wrong(record, {1, 1, wrong.what()});
      }
    }
  }

  void close(std::vector<Record>& records) override {
    records.insert(records.end(), waived_.begin(), waived_.end());
    steppers_.clear();
    for (auto& [id, fixture] : fixtures_) {
      const auto check = plainly([&, &one = fixture] { return one->last_check(); });
      for (auto& record : records) {
        if (check.mismatches > 0 && record.id.same_cell(id) && reports::has_numbers(record.status))
          mark_wrong(record, check);
      }
    }
    fixtures_.clear();
  }

 private:
  void add(std::vector<BenchmarkCase>& runnable, const Identity& id,
           const std::shared_ptr<StepFixture>& fixture) {
    if (fixtures_.empty() || fixtures_.back().second != fixture) fixtures_.emplace_back(id, fixture);
    const auto& all = methods_by_suite().at(suite_.suite.name);
    const auto method = std::ranges::find(all, id.method, &StepMethod::name);
    std::shared_ptr<Stepper> stepper;
    try {
      stepper = plainly([&] { return method->open(id, *fixture); });
    } catch (const CannotRun& refusal) {
      waived_.push_back(reports::unmeasured(id, Status::waived, refusal.what()));
      return;
    }
    runnable.push_back(runnable_case(id, method->role, stepper, fixture));
    runnable.back().more = fixture->columns();
    steppers_.emplace_back(id, stepper);
  }

  static void mark_wrong(Record& record, const Check& check) {
    record.status = Status::wrong;
    record.reason = reports::one_line(check.first);
    record.mismatches += check.mismatches;
    reports::summarise(record);
  }

  const StepSuite& suite_;
  std::vector<StepCell> cells_;
  StepTerms terms_;
  std::vector<int> cpus_;
  std::vector<std::pair<Identity, std::shared_ptr<Stepper>>> steppers_;
  std::vector<std::pair<Identity, std::shared_ptr<StepFixture>>> fixtures_;
  std::vector<Record> waived_;  ///< cases whose methods could not open them
};

/// From the options to groups of cases.
class StepPlanner {
 public:
  StepPlanner(const StepSuite& suite, const Options& options, std::shared_ptr<const TableFile> table,
              const harness::Machine& machine)
      : suite_(suite),
        options_(options),
        table_(std::move(table)),
        machine_(machine),
        methods_(methods_by_suite()[suite.suite.name]) {}

  Plan plan() {
    for (auto& cell : cells()) add_cell(std::move(cell));
    if (plan_.groups.empty() && plan_.waived.empty()) throw UsageError(nothing_to_do());
    if (auto peers = Peers::of_this_run().versions(); !peers.empty())
      plan_.environment["peers"] = std::move(peers);
    if (table_) {
      plan_.environment["table"] = table_->environment();
      plan_.warnings.push_back(
          fmt::format("--table {}: the file is only read; steps change a copy of its rows", table_->name()));
    }
    return std::move(plan_);
  }

 private:
  std::vector<StepCell> cells() {
    if (options_.case_id.empty()) return suite_.cells(options_, machine_);
    auto id = case_of(options_.case_id, suite_.suite.name);
    require_known(id.placement, "--case: placement",
                  on_gpu(id) ? suite_.gpu_placements : suite_.host_placements);
    only_ = id.method;
    id.method.clear();
    if (table_) require_shape_of(*table_, id);
    suite_.check_case(id, options_);
    return cells_of({id}, 60);
  }

  [[nodiscard]] bool takes_part(const StepMethod& method, const StepCell& cell) const {
    if (!contains(method.directions, cell.id.direction)) return false;
    if (!only_.empty()) return method.name == only_ || method.role == harness::Role::libtorch;
    if (contains(options_.methods, method.name) || contains(options_.peers, method.name)) return true;
    if (!options_.methods.empty()) return false;
    return cell.methods.empty() ? !method.asked_only : contains(cell.methods, method.name);
  }

  void add_cell(StepCell cell) {
    std::vector<Identity> cases;
    for (const auto& method : methods_) {
      auto id = cell.id;
      id.method = method.name;
      if (method.keeps_rows != has_cache(id) || !takes_part(method, cell) || !method.supports(id)) continue;
      if (const auto reason = method.skip_reason(id); !reason.empty()) {
        plan_.waived.push_back(reports::unmeasured(id, Status::waived, reason));
      } else {
        cases.push_back(std::move(id));
      }
    }
    if (cases.empty()) return;
    require_room(cell.id);
    if (plan_.groups.empty() || cell.group != group_) {
      plan_.groups.push_back(
          std::make_unique<StepGroup>(suite_, StepTerms{options_.seed, table_}, machine_.allowed_cpus));
    }
    group_ = cell.group;
    static_cast<StepGroup&>(*plan_.groups.back()).add_cell(std::move(cell), cases);
  }

  void require_room(const Identity& id) const {
    require_room(id, suite_.needs(id, /*gpu=*/false), machine_.memory_available, "are available");
    if (on_gpu(id))
      require_room(id, suite_.needs(id, /*gpu=*/true), speedtorch::cuda_free_bytes(at::Device(id.device)),
                   "are free on " + id.device);
  }
  void require_room(Identity id, std::int64_t needed, std::int64_t free, const std::string& where) const {
    if (needed <= free) return;
    id.method = "any";
    throw UsageError(fmt::format("{}: needs {}, {} {}\nuse fewer --rows or a smaller --dim",
                                 harness::format_case(id, suite_.suite.axes), harness::human_bytes(needed),
                                 harness::human_bytes(free), where));
  }

  [[nodiscard]] std::string nothing_to_do() const {
    Names usual, peers;
    for (const auto& method : method_infos(methods_)) add_once(method.peer ? peers : usual, method.name);
    return fmt::format(
        "--suite {}: no case is left\nmethods: {}; peers: {}\nplacements with --device cpu: {}; with a GPU: "
        "{}",
        suite_.suite.name, fmt::join(usual, ", "), fmt::join(peers, ", "),
        fmt::join(suite_.host_placements, ", "), fmt::join(suite_.gpu_placements, ", "));
  }

  const StepSuite& suite_;
  const Options& options_;
  std::shared_ptr<const TableFile> table_;
  const harness::Machine& machine_;
  const std::vector<StepMethod>& methods_;
  std::string only_;  ///< the method of --case
  int group_ = 0;     ///< of the last cell
  Plan plan_;
};

const RegisterOption optimizer_option{
    "--optimizer LIST", "SparseAdam, Adagrad, SGD, ...; stbench list says which suite has which",
    option_reader::names(&Options::optimizers), optimizer_names};

/// The table of --table, whose rows are stepped; null without one.
std::shared_ptr<const TableFile> stepped_table(const StepSuite& suite, const Options& options) {
  if (!takes(suite.suite, "--table")) return nullptr;  // it is another suite's
  auto table = table_of(options);
  if (table && table->dtype() != at::kFloat)
    throw UsageError(fmt::format("--table {} has {}; --suite {} has float32 only", table->name(),
                                 dtype_name(table->dtype()), suite.suite.name));
  return table;
}

/// The axes of a suite, and its methods and peers.
std::vector<AxisInfo> described(const StepSuite& suite) {
  auto axes = with_methods(suite.suite.describe(), 0, method_infos(methods_by_suite()[suite.suite.name]));
  const auto add = [&](const char* name, const Names& values) {
    if (std::ranges::find(axes, name, &AxisInfo::name) == axes.end()) axes.emplace_back(name, values, "all");
  };
  axes.emplace_back("device", "cpu cuda:N", "cpu");
  axes.emplace_back("cores", "1 to what the process may use", "all");
  add("direction", suite.suite.directions);
  add("placement", suite.host_placements);
  return axes;
}

}  // namespace

std::vector<StepCell> cells_of(const std::vector<Identity>& cases, double seconds) {
  std::vector<StepCell> cells;
  for (const auto& id : cases) cells.push_back({id, static_cast<int>(cells.size()), seconds});
  return cells;
}

std::function<Names(const StepCell&)> placements_asked_for(const Options& options, const Names& standard,
                                                           const Names& host, const Names& gpu) {
  return [given = options.placements, standard, host, gpu](const StepCell& cell) {
    auto placements = given_or(given, on_gpu(cell.id) ? gpu : standard);
    std::erase_if(placements,
                  [&](const auto& name) { return !contains(on_gpu(cell.id) ? gpu : host, name); });
    return placements;
  };
}

std::vector<std::int64_t> cores_of(const Options& options, const harness::Machine& machine,
                                   bool one_and_all) {
  const std::int64_t all = machine.allowed_cores;
  for (const auto cores : options.cores) {
    if (cores < 1 || cores > all)
      throw UsageError(fmt::format("--cores {}: use 1 to {}, what the process may use", cores, all));
  }
  if (!options.cores.empty()) return options.cores;
  if (one_and_all && all > 1) return {1, all};
  return {all};
}

std::vector<std::string> step_devices(const Options& options) {
  Names devices;
  for (const auto& device : given_or(options.devices, {"cpu"})) add_once(devices, resolve_device(device));
  return devices;
}

std::int64_t bytes_or_most(const Identity& id, std::int64_t factor) {
  std::int64_t bytes = 0;
  const bool overflow =
      __builtin_mul_overflow(id.rows, id.dim, &bytes) || __builtin_mul_overflow(bytes, factor, &bytes);
  return overflow ? std::numeric_limits<std::int64_t>::max() : bytes;
}

RegisterStepSuite::RegisterStepSuite(StepSuite suite) {
  if (suite.suite.directions.empty()) suite.suite.directions = {"step"};
  const auto one = std::make_shared<const StepSuite>(std::move(suite));
  auto whole = one->suite;
  whole.describe = [one] { return described(*one); };
  whole.methods = [one] { return method_infos(methods_by_suite()[one->suite.name]); };
  whole.plan = [one](const Options& options, const harness::Machine& machine) {
    Peers::of_this_run().configure(machine.allowed_cpus, options.timeout_s);
    const auto table = stepped_table(*one, options);
    return StepPlanner(*one, table ? with_shape_of(*table, options) : options, table, machine).plan();
  };
  const RegisterSuite registration(std::move(whole));
}

RegisterStepMethod::RegisterStepMethod(const std::string& suite, StepMethod method) {
  auto& all = methods_by_suite()[suite];
  const auto rank = [](const StepMethod& one) { return std::pair(one.role, one.name); };
  const auto place = std::find_if(all.begin(), all.end(),
                                  [&](const StepMethod& other) { return rank(other) > rank(method); });
  all.insert(place, std::move(method));
}

}  // namespace stbench

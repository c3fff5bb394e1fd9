#include "benchmarks/transfer/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "benchmarks/suite/plainly.h"
#include "benchmarks/transfer/caller_threads.h"
#include "benchmarks/transfer/case_identity.h"
#include "benchmarks/transfer/case_runner.h"
#include "benchmarks/transfer/fixture.h"
#include "benchmarks/transfer/method.h"
#include "harness/numbers.h"
#include "reports/statistics/statistics.h"
#include "reports/style.h"
#include "speedtorch/error.h"
#include "speedtorch/kernels/isa.h"
#include "speedtorch/system/pages.h"
#include "speedtorch/threads.h"

namespace stbench {
namespace {

using harness::BenchmarkCase;
using harness::Check;
using reports::Record;
using reports::Status;
using speedtorch::Placement;

/// The table is corrupted and the culprit is unknown, so every case that used it is marked `wrong`.
void mark_wrong(Record& record, const Check& check, const char* users) {
  record.status = Status::wrong;
  record.reason = reports::one_line(fmt::format("a case of {} damaged the table: {} of {} rows differ: {}",
                                                users, check.mismatches, check.rows, check.first));
  record.mismatches += check.mismatches;
  reports::summarise(record);
}

/// The reason without the folder's name, as it goes into reports.
std::string without_table_folder(std::string reason) {
  constexpr std::string_view instead = "TMPDIR or /var/tmp";
  const auto folder = table_folder();
  for (auto at = reason.find(folder); at != std::string::npos; at = reason.find(folder, at + instead.size()))
    reason.replace(at, folder.size(), instead);
  return reason;
}

/// @throws MemoryError if a warm file's pages are not in memory
void confirm_resident(const speedtorch::Memory& memory, std::int64_t bytes) {
  const double resident = speedtorch::resident_fraction(memory.data(), bytes);
  if (resident < 0.999) {
    throw speedtorch::MemoryError(
        fmt::format("only {:.1f} % of the mapped file's pages are in memory; free memory or use fewer --rows",
                    resident * 100));
  }
}

std::string title_of(const TransferCase& first) {
  const auto id = identity_of(first);
  auto title = fmt::format("{} {} {}×{}, {} core{}{}", id.direction, id.dtype, harness::short_count(id.rows),
                           id.dim, id.cores, id.cores == 1 ? "" : "s", first.is_cold() ? ", cold" : "");
  if (first.callers > 1) title += fmt::format(", {} callers", first.callers);
  return title;
}

class TransferGroup final : public TimedGroup {
 public:
  TransferGroup(TransferPlan::Cases plan, std::shared_ptr<TransferRun> run, const harness::Machine& machine)
      : typed_(std::move(plan.cases)), run_(std::move(run)), cpus_(machine.allowed_cpus) {
    std::ranges::transform(typed_, std::back_inserter(cases), identity_of);
    seconds = plan.seconds;
    title = title_of(typed_.front());
  }

  std::vector<BenchmarkCase> prepare() override {
    // A filter may have taken some away.
    std::erase_if(typed_,
                  [&](const auto& one) { return std::ranges::find(cases, identity_of(one)) == cases.end(); });
    const auto& first = typed_.front();
    const bool several = first.callers > 1;
    // Callers have their own pools, so the usual one needs no affinity.
    speedtorch::set_threads(static_cast<int>(first.cores), several ? std::vector<int>{} : cpus_);
    std::shared_ptr<CallerThreads> threads;
    if (several) {
      const auto cores = std::min<std::ptrdiff_t>(first.cores, std::ssize(cpus_));
      threads = std::make_shared<CallerThreads>(static_cast<int>(first.callers),
                                                std::vector<int>(cpus_.begin(), cpus_.begin() + cores));
    }
    speedtorch::kernels::use_isa(first.isa);
    const auto indices = run_->indices.sets(first, run_->tables.content().seed());
    std::vector<BenchmarkCase> runnable;
    for (const auto& one : typed_) {
      auto& cell = cell_of(one, indices);
      if (!cell.fixture) continue;
      const auto draw = [run = run_, one](int set) {
        return run->indices.draw(one, run->tables.content().seed(), set);
      };
      runnable.push_back(runnable_case(one, cell.fixture, threads, cell.cold, run_->last_level_cache, draw));
      runnable.back().more = {{"pages_got", cell.pages},
                              {"huge_fraction", cell.huge},
                              {"resident_fraction", std::monostate{}},
                              {"throttled", std::monostate{}}};
      if (cell.memory->file_fd() >= 0) watch_residency(runnable.back(), cell);
    }
    return runnable;
  }

  [[nodiscard]] bool concludes() const override { return true; }
  void conclude(Record& record) override {
    if (!reports::has_numbers(record.status)) return;
    for (const auto& one : typed_) {
      if (!(identity_of(one) == record.id)) continue;
      auto& cell = cells_.at(place_of(one));
      if (const auto resident = resident_part(one, cell))
        reports::set(record.more, "resident_fraction", *resident);
      if (!one.method->columns) continue;
      for (auto& [name, value] : one.method->columns(cell.fixture->operands))
        reports::set(record.more, name, value);
    }
  }

  void close(std::vector<Record>& records) override {
    try {
      for (auto& [place, cell] : cells_) {
        if (cell.fixture) plainly([&, &of = place, &one = cell] { judge(records, of, one); });
      }
    } catch (...) {
      cells_.clear();
      run_->tables.clear();  // their content is unknown
      throw;
    }
    for (const auto& one : typed_) {
      const auto cell = cells_.find(place_of(one));
      if (cell != cells_.end() && cell->second.status != Status::ok)
        records.push_back(reports::unmeasured(identity_of(one), cell->second.status, cell->second.reason));
    }
    cells_.clear();
  }

 private:
  /// A placement, and the memory of methods that keep rows.
  using Place = std::pair<Placement, std::int64_t>;
  static Place place_of(const TransferCase& one) { return {one.placement, one.cache_bytes}; }

  /// The part of one place, which its cases share.
  struct Cell {
    std::shared_ptr<speedtorch::Memory> memory;
    std::shared_ptr<TransferFixture> fixture;  ///< null if the placement cannot be had
    std::shared_ptr<Cold> cold;                ///< null for warm cases
    reports::Value pages, huge;                ///< of a table on the host
    std::map<std::string, double> resident;    ///< part of the file after the last sample, by method
    Status status = Status::ok;
    std::string reason;  ///< why the placement cannot be had
  };

  /// Notes after each sample which part of the file is in memory: before the next one it may be evicted.
  static void watch_residency(BenchmarkCase& runnable, Cell& cell) {
    auto& part = cell.resident[runnable.id.method];
    runnable.after_sample = [&part, memory = cell.memory] {
      part = speedtorch::resident_fraction(memory->data(), memory->bytes());
    };
  }

  /// Nothing for memory of a GPU.
  [[nodiscard]] static std::optional<double> resident_part(const TransferCase& one, const Cell& cell) {
    if (const auto found = cell.resident.find(one.method->name); found != cell.resident.end())
      return found->second;
    if (!cell.memory->on_host()) return std::nullopt;
    return speedtorch::resident_fraction(cell.memory->data(), one.shape().bytes());
  }

  /// The cell of a case's placement. If it cannot be had, the others are measured nevertheless.
  Cell& cell_of(const TransferCase& one, const std::shared_ptr<const IndexSets>& indices) {
    const auto [place, fresh] = cells_.try_emplace(place_of(one));
    auto& cell = place->second;
    if (!fresh) return cell;
    try {
      plainly([&] { open(cell, one, indices); });
    } catch (const CannotEvict& error) {
      cell = {.status = Status::waived, .reason = error.what()};
    } catch (const std::exception& error) {
      cell = {.status = Status::failed, .reason = without_table_folder(error.what())};
    }
    return cell;
  }

  void open(Cell& cell, const TransferCase& one, const std::shared_ptr<const IndexSets>& indices) {
    const at::Device device = speedtorch::needs_cuda(one.placement) ? one.device : at::Device(at::kCPU);
    const auto users = cases_in(one.placement);
    if (users.size() == typed_.size()) run_->tables.keep_only(one.placement);
    const auto bytes = one.shape().bytes();
    const bool shared =  // a file can be opened by other processes as it is
        one.placement != Placement::mapped &&
        std::ranges::any_of(users, [](const auto& user) { return static_cast<bool>(user.method->open); });
    auto memory = uses_file(one, shared) ? run_->tables.mapped_file()
                                         : run_->tables.filled(one.placement, bytes, device, shared);
    std::vector<reports::Identity> identities;
    std::ranges::transform(users, std::back_inserter(identities), identity_of);
    run_->tables.use(*memory, identities);
    cell.memory = memory;
    if (one.is_cold()) {
      cell.cold = std::make_shared<Cold>(memory, one.device, run_->cache_walk());
      cell.cold->evict();  // throws before anything is measured if it cannot
    } else if (one.placement == Placement::mapped) {
      make_warm(*memory);
      confirm_resident(*memory, bytes);
    }
    // A cold file has no resident pages, so there is no page size to report.
    if (memory->on_host() && (!one.is_cold() || memory->file_fd() < 0)) {
      const auto huge = speedtorch::huge_bytes(memory->data(), bytes);
      cell.pages = huge ? speedtorch::page_kind(*huge, bytes) : std::string();
      if (huge) cell.huge = speedtorch::huge_fraction(*huge, bytes);
    }
    const auto content = run_->tables.content();
    cell.fixture = one.cache_bytes > 0
                       ? std::make_shared<TransferFixture>(one, std::move(memory),
                                                           std::make_shared<IndexSets>(*indices), content)
                       : std::make_shared<TransferFixture>(one, std::move(memory), indices, content);
  }

  /// True for a mapped table that is the file of --table itself: nothing may write to that.
  [[nodiscard]] bool uses_file(const TransferCase& one, bool shared) const {
    return run_->file && one.placement == Placement::mapped && !one.writes() && !shared &&
           run_->file->is_aligned_for(one.shape().dtype);
  }

  [[nodiscard]] std::vector<TransferCase> cases_in(Placement placement) const {
    std::vector<TransferCase> found;
    std::ranges::copy_if(typed_, std::back_inserter(found),
                         [&](const auto& one) { return one.placement == placement; });
    return found;
  }

  /// The last check of one place's table by this group; of all its rows if that takes no time.
  void judge(std::vector<Record>& records, const Place& place, Cell& cell) {
    const auto of_cell = [name = to_string(place.first), bytes = place.second](const Record& record) {
      return record.id.placement == name &&
             *reports::find(record.id.axes, "cache_bytes") == reports::Value(bytes);
    };
    const auto measured = [](const Record& record) { return reports::has_numbers(record.status); };
    const bool trusted =
        std::ranges::all_of(records, [&](const Record& r) { return !of_cell(r) || measured(r); });
    const bool whole = run_->tables.is_small(*cell.memory);
    const auto check = cell.fixture->verifier.close(trusted, whole);
    if (whole || !trusted || check.mismatches > 0)
      run_->tables.checked(*cell.memory, typed_.front().shape().bytes(), check);
    if (check.mismatches == 0) return;
    for (auto& record : records) {
      if (of_cell(record) && measured(record)) mark_wrong(record, check, "this cell");
    }
  }

  std::vector<TransferCase> typed_;  ///< those of `cases`
  std::shared_ptr<TransferRun> run_;
  std::vector<int> cpus_;
  std::map<Place, Cell> cells_;
};

}  // namespace

std::unique_ptr<Group> transfer_group(TransferPlan::Cases plan, std::shared_ptr<TransferRun> run,
                                      const harness::Machine& machine) {
  return std::make_unique<TransferGroup>(std::move(plan), std::move(run), machine);
}

void mark_users_wrong(TableStore& tables, std::vector<Record>& records) {
  for (const auto& damage : tables.take_damage()) {
    for (auto& record : records) {
      if (std::ranges::find(damage.users, record.id) != damage.users.end() &&
          reports::has_numbers(record.status))
        mark_wrong(record, damage.check, "the cells that used it");
    }
  }
}

}  // namespace stbench

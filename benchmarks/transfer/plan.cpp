#include "benchmarks/transfer/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/cache_bytes.h"
#include "benchmarks/suite/devices.h"
#include "benchmarks/transfer/axes.h"
#include "benchmarks/transfer/case_identity.h"
#include "benchmarks/transfer/fit.h"
#include "benchmarks/transfer/method.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "speedtorch/cuda.h"

namespace stbench {
namespace {

using reports::Record;
using reports::Status;
using speedtorch::Placement;
using Names = std::vector<std::string>;
using Counts = std::vector<std::int64_t>;
using Devices = std::vector<at::Device>;
using Dtypes = std::vector<std::optional<at::ScalarType>>;

/// The case of SpeedTorch's README.
constexpr const char* standard_dtype = "float32";
constexpr std::int64_t standard_rows = 1'000'000, standard_dim = 128, standard_batch = 131'072;
/// The batch of each of several callers: eight of them move a standard batch. The table has no room for eight
/// standard batches.
constexpr std::int64_t caller_batch = standard_batch / 8;
constexpr std::int64_t most_callers = 1024;

/// The typed values of names.
template <class Read>
auto typed(const Names& names, Read read) {
  std::vector<decltype(read(names.front()))> values;
  std::ranges::transform(names, std::back_inserter(values), read);
  return values;
}

Names names_of(const Devices& devices) {
  Names names;
  for (const auto& device : devices) names.push_back(device.str());
  return names;
}

template <class T>
std::vector<T> or_standard(const std::vector<T>& of_block, T standard) {
  return of_block.empty() ? std::vector<T>{standard} : of_block;
}

Devices devices_of(const Options& options) {
  Devices devices;
  for (const auto& device : options.devices) add_once(devices, at::Device(resolve_device(device)));
  if (devices.empty()) {
    devices = {at::kCPU};
    if (speedtorch::cuda_status().available) devices.emplace_back("cuda:0");
    return devices;
  }
  require_gpu_for(options.placements, names_of(devices));
  return devices;
}

void require_callers(const Options& options) {
  for (const auto callers : options.callers) {
    if (callers < 1 || callers > most_callers)
      throw UsageError(fmt::format("--callers {}: use 1 to {}", callers, most_callers));
  }
}

/// Expands the axes into cells and groups.
class TransferPlanner {
 public:
  TransferPlanner(const Options& options, const harness::Machine& machine,
                  std::optional<std::int64_t> disk_free, TransferIndices& indices)
      : options_(options),
        machine_(machine),
        fit_(machine, disk_free),
        preset_(preset_of(options)),
        indices_(indices),
        devices_(devices_of(options)) {
    (void)directions_of(options);  // refuses the directions of other suites
    for (const auto cores : options.cores) require_cores(cores);
    require_callers(options);
    for (const auto& block : preset_.blocks) {
      for (const auto& name : given_or(options.distributions, block.distributions))
        if (!distributions_.contains(name)) distributions_[name] = indices.add(name);
    }
  }

  TransferPlan plan() {
    for (const auto& placements : passes()) {
      for (const auto& block : preset_.blocks) plan_block(block, placements);
    }
    for (const auto& block : preset_.blocks) waive_without_gpu(block);
    waive_absent_peers(preset_.blocks.front());
    if (plan_.groups.empty() && plan_.waived.empty()) throw UsageError(nothing_to_do());
    require_cache_used(options_,
                       std::ranges::any_of(planned_, [](const auto& one) { return one.cache_bytes > 0; }));
    share_time();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] Placements placements_of(const Block& block) const {
    return typed(given_or(options_.placements, block.placements), placement_of);
  }

  /// The placements that are planned together, pass by pass.
  [[nodiscard]] std::vector<Placements> passes() const {
    Placements all;
    for (const auto& block : preset_.blocks) {
      for (const auto placement : placements_of(block)) add_once(all, placement);
    }
    if (!preset_.by_placement) return {all};
    std::vector<Placements> each;
    for (const auto placement : all) each.push_back({placement});
    return each;
  }

  void plan_block(const Block& block, const Placements& pass) {
    auto placements = placements_of(block);
    std::erase_if(placements, [&](auto one) { return std::ranges::find(pass, one) == pass.end(); });
    const auto devices = devices_of_block(block);
    if (placements.empty() || devices.empty()) return;
    for (const auto& shape : shapes(block)) {
      check(shape);
      fit_.require_host(shape, placements);
      std::vector<TransferCase> cells{shape};
      cross(cells, devices, &TransferCase::device);
      for (const auto& cell : cells) fit_.require_gpu(cell, placements);
      cross(cells, cores_of(block), &TransferCase::cores);
      cross(cells, measured_directions(block), &TransferCase::direction);
      for (const auto& cell : cells) add_groups(block, cell, placements);
    }
  }

  /// A block's time is for its groups, each with the same share.
  void share_time() {
    std::map<const Block*, std::size_t> groups;
    for (const auto* block : blocks_of_groups_) ++groups[block];
    for (std::size_t i = 0; i < plan_.groups.size(); ++i) {
      const auto* block = blocks_of_groups_[i];
      plan_.groups[i].seconds =
          std::min(block->seconds / static_cast<double>(groups.at(block)), block->group_seconds);
    }
  }

  [[nodiscard]] Devices devices_of_block(const Block& block) const {
    auto devices = devices_;
    std::erase_if(devices, [&](const at::Device& device) {
      return block.devices != Block::Devices::any &&
             device.is_cpu() != (block.devices == Block::Devices::host);
    });
    return devices;
  }

  void require_cores(std::int64_t cores) const {
    const std::int64_t all = machine_.allowed_cores;
    if (cores >= 1 && cores <= all) return;
    throw UsageError(
        fmt::format("--cores {}: this process may use {} (affinity and control group count); use 1 to {}",
                    cores, all, all));
  }

  [[nodiscard]] Counts cores_of(const Block& block) const {
    using Cores = Block::Cores;
    const std::int64_t most = machine_.allowed_cores;
    if (block.cores == Cores::doubled && most <= 2) return {};  // other blocks have both
    Counts cores;
    if (block.cores == Cores::doubled) {
      for (std::int64_t some = 1; some < most; some *= 2) cores.push_back(some);
    }
    if (block.cores == Cores::one || (block.cores == Cores::one_and_all && most > 1)) cores.push_back(1);
    if (block.cores != Cores::one) cores.push_back(most);
    return given_or(options_.cores, cores);
  }

  /// A block with a list of methods has peers only if it says so, also those that --peers names: else one
  /// peer would take most of a preset's time.
  [[nodiscard]] bool has_method(const Block& block, const Method& method) const {
    const bool by_name = contains(block.methods, method.name);
    const bool listed =
        block.methods.empty() || by_name || (block.peers && method.role == harness::Role::peer);
    if (contains(options_.methods, method.name)) return true;
    if (keeps_rows(method) && asks_for_cache(options_)) return options_.methods.empty();
    if (contains(options_.peers, method.name)) return listed;
    return options_.methods.empty() && (method.asked_only ? by_name : listed);
  }

  /// The dtypes and widths of rows.
  void cross_widths(std::vector<TransferCase>& all, const Block& block) const {
    const bool given = !options_.dims.empty() || !options_.dtypes.empty();
    if (!options_.row_bytes.empty() && given)
      throw UsageError("--row-bytes gives the width of a row by itself; leave out --dim and --dtype");
    const auto widths = given_or(options_.row_bytes, given ? Counts{} : block.row_bytes);
    const auto dtypes = given_or(options_.dtypes, or_standard<std::string>(block.dtypes, standard_dtype));
    const auto dims = given_or(options_.dims, or_standard(block.dims, standard_dim));
    cross(all, widths.empty() ? typed(dtypes, dtype_named) : Dtypes{std::nullopt}, &TransferCase::dtype);
    cross(all, given_or(options_.rows, or_standard(block.rows, block.table_bytes > 0 ? 0 : standard_rows)),
          &TransferCase::rows);
    cross(all, widths.empty() ? dims : widths, &TransferCase::dim);
  }

  /// Every combination of the shape's axes; placement, method, device, direction and cores are still open.
  std::vector<TransferCase> shapes(const Block& block) {
    Names distributions;
    for (const auto& name : given_or(options_.distributions, block.distributions))
      add_once(distributions, distributions_.at(name));
    const auto index_dtypes = given_or(options_.index_dtypes, block.index_dtypes);
    const auto caches = given_or(options_.caches, or_standard<std::string>(block.caches, "warm"));
    const auto batch = options_.callers.empty() ? standard_batch : caller_batch;
    std::vector<TransferCase> all(1);
    cross_widths(all, block);
    cross(all, given_or(options_.batches, or_standard(block.batches, batch)), &TransferCase::batch);
    cross(all, distributions, &TransferCase::distribution);
    cross(all, typed(index_dtypes, [](const auto& name) { return dtype_named(name).value(); }),
          &TransferCase::index_dtype);
    cross(all, given_or(options_.isas, {"best"}), &TransferCase::isa);
    cross(all, typed(caches, [](const auto& name) { return name == "cold" ? Cache::cold : Cache::warm; }),
          &TransferCase::cache);
    cross(all, given_or(options_.callers, {1}), &TransferCase::callers);
    for (auto& one : all) {
      if (one.rows == 0 && options_.rows.empty()) one.rows = rows_within(block.table_bytes, one);
    }
    return all;
  }

  /// The rows of a table of so many bytes, or of what the memory has room for.
  std::int64_t rows_within(std::int64_t wanted, const TransferCase& shape) {
    const auto row_bytes = shape.shape().row_bytes();
    if (row_bytes < 1) return 1;  // check() says what is wrong
    const auto bytes = fit_.bytes_within(wanted, shape);
    if (bytes < wanted && plan_.warnings.empty()) {
      plan_.warnings.push_back(
          fmt::format("tables have {} instead of {}: that is what the memory has room for",
                      harness::human_bytes(bytes), harness::human_bytes(wanted)));
    }
    return bytes / row_bytes;
  }

  /// @throws UsageError for a shape that cannot be, before anything is allocated
  void check(const TransferCase& shape) const {
    require_positive({{"--rows", shape.rows},
                      {shape.dtype ? "--dim" : "--row-bytes", shape.dim},
                      {"--batch", shape.batch}});
    indices_.require(shape);
    if (shape.index_dtype == at::kInt && shape.rows > std::numeric_limits<std::int32_t>::max())
      throw UsageError(fmt::format("--index-dtype int32 cannot name {} rows; use int64", shape.rows));
  }

  /// `sum` is made of the other two.
  [[nodiscard]] std::vector<Direction> measured_directions(const Block& block) const {
    const auto wanted = given_or(options_.directions, block.directions);
    const bool sum = contains(wanted, "sum");
    std::vector<Direction> measured;
    for (const std::string name : {"to", "from", "round_trip", "both", "consume"}) {
      const auto direction = direction_of(name);
      const bool for_sum = sum && (direction == Direction::to || direction == Direction::from);
      if (for_sum || contains(wanted, name)) measured.push_back(direction);
    }
    return measured;
  }

  void add_groups(const Block& block, TransferCase cell, Placements placements) {
    std::erase_if(placements, [&](auto one) { return !cell.on_gpu() && speedtorch::needs_cuda(one); });
    const bool together = fit_.fit_together(cell, placements.size());
    TransferPlan::Cases group;
    for (const auto placement : placements) {
      if (cell.on_gpu() && cell.isa != "best") continue;  // --isa selects host kernels
      cell.placement = placement;
      if (const auto reason = fit_.warm_skip_reason(cell); !reason.empty()) {
        auto one = cell;
        one.method = &method_named("speedtorch");
        if (planned_.insert(one).second) waive(one, reason);
        continue;
      }
      for (auto& one : all_cases_of(block, cell)) {
        auto* earlier = group_of(one);
        (earlier ? *earlier : group).cases.push_back(std::move(one));
      }
      if (!together) close(block, group);
    }
    close(block, group);
  }

  /// The closed group that has this case's cell: an earlier block's, of which this one adds methods. They are
  /// measured in the same rounds.
  TransferPlan::Cases* group_of(const TransferCase& one) {
    const auto known = groups_of_cells_.find(one.cell());
    return known == groups_of_cells_.end() ? nullptr : &plan_.groups[known->second];
  }

  void close(const Block& block, TransferPlan::Cases& group) {
    if (group.cases.empty()) return;
    for (const auto& one : group.cases) groups_of_cells_.emplace(one.cell(), plan_.groups.size());
    plan_.groups.push_back(std::exchange(group, {}));
    blocks_of_groups_.push_back(&block);
  }

  /// Methods that keep rows have a cell for each size of their memory.
  std::vector<TransferCase> all_cases_of(const Block& block, TransferCase cell) {
    auto cases = cases_of(block, cell);
    for (const auto bytes : cache_bytes_of(options_, cell.rows, cell.shape().row_bytes())) {
      cell.cache_bytes = bytes;
      for (auto& one : cases_of(block, cell)) cases.push_back(std::move(one));
    }
    return cases;
  }

  std::vector<TransferCase> cases_of(const Block& block, TransferCase cell) {
    std::vector<TransferCase> cases;
    for (const auto& method : methods()) {
      if (keeps_rows(method) != (cell.cache_bytes > 0)) continue;
      cell.method = &method;
      const bool supported = method.supports(cell) && direction_supported(cell) &&
                             !(method.open && (cell.bidirectional() || cell.consumes()));
      if (!has_method(block, method) || !supported || !planned_.insert(cell).second) continue;
      if (const auto reason = skip_reason(cell); !reason.empty()) {
        waive(cell, reason);
      } else {
        cases.push_back(cell);
      }
    }
    return cases;
  }

  [[nodiscard]] static std::string skip_reason(const TransferCase& one) {
    if (auto reason = direction_skip_reason(one); !reason.empty()) return reason;
    if (one.method->open && one.callers > 1) return "a peer process has one caller; use --callers 1";
    if (keeps_rows(*one.method) && one.callers > 1)
      return fmt::format("{} has one caller; use --callers 1", one.method->name);
    return one.method->skip_reason(one);
  }

  void waive(const TransferCase& one, const std::string& reason) {
    plan_.waived.push_back(reports::unmeasured(identity_of(one), Status::waived, reason));
  }

  /// A case of the block, for a reason that is all that is reported of it.
  TransferCase example_of(const Block& block, Placement placement, at::Device device) {
    auto one = shapes(block).front();
    one.direction = measured_directions(block).front(), one.placement = placement, one.device = device;
    one.cores = cores_of(block).back();
    return one;
  }

  /// One line per placement for the GPU that is not there; nothing if the user chose the devices.
  void waive_without_gpu(const Block& block) {
    const auto& cuda = speedtorch::cuda_status();
    if (cuda.available || !options_.devices.empty() || block.devices == Block::Devices::host) return;
    for (const auto placement : placements_of(block)) {
      auto one = example_of(block, placement, at::Device("cuda:0"));
      one.method = &method_named(speedtorch::needs_cuda(placement) ? "speedtorch" : "staged");
      const auto said = [&](const Record& record) {
        return record.id.placement == to_string(placement) && record.id.device == one.device.str();
      };
      if (!direction_supported(one) || std::ranges::any_of(plan_.waived, said)) continue;
      waive(one, fmt::format("missing: {}; {}", cuda.missing, cuda.cure));
    }
  }

  [[nodiscard]] bool takes_part(const Method& method) const {
    const auto is_its = [&](const TransferCase& one) { return one.method == &method; };
    return std::ranges::any_of(plan_.groups,
                               [&](const auto& group) { return std::ranges::any_of(group.cases, is_its); }) ||
           std::ranges::any_of(plan_.waived,
                               [&](const Record& record) { return record.id.method == method.name; });
  }

  /// One line for each method that was asked for by name as a peer and takes part in none of the cells.
  void waive_absent_peers(const Block& block) {
    for (const auto& method : methods()) {
      if (!contains(options_.peers, method.name) || takes_part(method)) continue;
      auto one = example_of(block, placements_of(block).front(), devices_.front());
      one.method = &method;
      waive(one, fmt::format("takes part in {}; none is among the cells of this run", method.where));
    }
  }

  [[nodiscard]] std::string nothing_to_do() const {
    std::vector<std::string_view> placements;
    for (const auto& pass : passes()) {
      for (const auto placement : pass) placements.push_back(to_string(placement));
    }
    const char* isa =
        options_.isas.empty() ? "" : "\n--isa is of the host's kernels: it goes with --device cpu";
    const bool both = options_.directions == Names{"both"};
    return fmt::format(
        "nothing to measure: no method of --method {} goes from --placement {} to --device {}{}{}",
        options_.methods.empty() ? "(all)" : fmt::format("{}", fmt::join(options_.methods, ",")),
        fmt::join(placements, ","), fmt::join(names_of(devices_), ","), isa,
        both ? "\n--direction both is between pinned memory and a GPU" : "");
  }

  const Options& options_;
  const harness::Machine& machine_;
  TransferFit fit_;
  const Preset& preset_;
  TransferIndices& indices_;
  Devices devices_;
  std::map<std::string, std::string> distributions_;     ///< as given, and as reports name them
  std::set<TransferCase> planned_;                       ///< no case is planned twice
  std::map<TransferCase, std::size_t> groups_of_cells_;  ///< places in the plan's groups
  std::vector<const Block*> blocks_of_groups_;
  TransferPlan plan_;
};

}  // namespace

TransferPlan plan_transfer(const Options& options, const harness::Machine& machine,
                           std::optional<std::int64_t> disk_free, TransferIndices& indices) {
  return TransferPlanner(options, machine, disk_free, indices).plan();
}

}  // namespace stbench

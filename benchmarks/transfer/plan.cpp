#include "benchmarks/transfer/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "benchmarks/suite/devices.h"
#include "benchmarks/tables/table_store.h"
#include "benchmarks/transfer/axes.h"
#include "benchmarks/transfer/method.h"
#include "harness/case_id.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "speedtorch/cuda.h"

namespace stbench {
namespace {

using reports::Identity;
using reports::Record;
using reports::Status;
using Names = std::vector<std::string>;
using Counts = std::vector<std::int64_t>;

/// The seed's case.
constexpr const char* standard_dtype = "float32";
constexpr std::int64_t standard_rows = 1'000'000, standard_dim = 128, standard_batch = 131'072;
/// Of each of several callers, so that eight of them move a standard batch; the table has no room for eight.
constexpr std::int64_t caller_batch = standard_batch / 8;
constexpr std::int64_t most_callers = 1024;

/// Tables of all placements may share the rounds while they take no more than this part of the free memory.
constexpr double shared_memory_part = 0.6;
/// A table whose size is the preset's leaves so much of the free memory to others.
constexpr double most_of_memory = 0.8;

void add_once(Names& names, const std::string& name) {
  if (!contains(names, name)) names.push_back(name);
}

/// Bytes of the table. @throws UsageError where they do not fit 63 bits.
std::int64_t table_bytes(const Identity& id) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(id.rows, shape_of(id).row_bytes(), &bytes)) {
    throw UsageError(
        fmt::format("a table of {} × {} {} overflows: more than 2^63 bytes", id.rows, id.dim, id.dtype));
  }
  return bytes;
}

std::int64_t needed_bytes(const Identity& id) {
  std::int64_t bytes = 0;
  if (__builtin_add_overflow(table_bytes(id), Arena::working_bytes(id), &bytes)) {
    throw UsageError(fmt::format("a batch of {} rows overflows: more than 2^63 bytes", id.batch));
  }
  return bytes;
}

/// Expands the axes into cells and groups.
class TransferPlanner {
 public:
  TransferPlanner(const Options& options, const harness::Machine& machine,
                  std::optional<std::int64_t> disk_free, TransferIndices& indices)
      : options_(options),
        machine_(machine),
        disk_free_(disk_free),
        preset_(preset_of(options)),
        indices_(indices) {
    read_devices();
    for (const auto cores : options.cores) check_cores(cores);
    for (const auto callers : options.callers) {
      if (callers < 1 || callers > most_callers)
        throw UsageError(fmt::format("--callers {}: use 1 to {}", callers, most_callers));
    }
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
    share_time();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] Names placements_of(const Block& block) const {
    return given_or(options_.placements, block.placements);
  }

  /// The placements that are planned together, pass by pass.
  [[nodiscard]] std::vector<Names> passes() const {
    Names all;
    for (const auto& block : preset_.blocks) {
      for (const auto& placement : placements_of(block)) add_once(all, placement);
    }
    if (!preset_.by_placement) return {all};
    std::vector<Names> each;
    for (const auto& placement : all) each.push_back({placement});
    return each;
  }

  void plan_block(const Block& block, const Names& pass) {
    block_ = &block;
    placements_ = placements_of(block);
    std::erase_if(placements_, [&](const std::string& placement) { return !contains(pass, placement); });
    const auto devices = devices_of(block);
    if (placements_.empty() || devices.empty()) return;
    for (const auto& shape : shapes(block)) {
      check(shape);
      for (const auto& device : devices) {
        check_device(shape, device);
        for (const auto cores : cores_of(block)) {
          for (const auto& direction : measured_directions(block))
            add_groups(shape, device, cores, direction);
        }
      }
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

  [[nodiscard]] Names devices_of(const Block& block) const {
    Names devices = devices_;
    std::erase_if(devices, [&](const std::string& device) {
      const bool host = device == "cpu";
      return block.devices != Block::Devices::any && host != (block.devices == Block::Devices::host);
    });
    return devices;
  }

  void read_devices() {
    for (const auto& device : options_.devices) add_once(devices_, resolve_device(device));
    if (!devices_.empty()) {
      const bool gpu =
          std::any_of(devices_.begin(), devices_.end(), [](const std::string& d) { return d != "cpu"; });
      for (const auto& placement : options_.placements) {
        if (!gpu && cuda_only(placement)) {
          throw UsageError(fmt::format("--placement {} goes with a CUDA device only, not with --device {}",
                                       placement, fmt::join(devices_, ",")));
        }
      }
      return;
    }
    devices_ = {"cpu"};
    if (speedtorch::cuda_status().available) devices_.emplace_back("cuda:0");
  }

  void check_cores(std::int64_t cores) const {
    const std::int64_t all = machine_.allowed_cores;
    if (cores >= 1 && cores <= all) return;
    throw UsageError(
        fmt::format("--cores {}: this process may use {} (affinity and control group count); use 1 to {}",
                    cores, all, all));
  }

  [[nodiscard]] Counts cores_of(const Block& block) const {
    using Cores = Block::Cores;
    const std::int64_t most = machine_.allowed_cores;
    if (block.cores == Cores::doubled && most <= 2) return {};  // the other blocks have both
    Counts cores;
    if (block.cores == Cores::doubled) {
      for (std::int64_t some = 1; some < most; some *= 2) cores.push_back(some);
    }
    if (block.cores == Cores::one || (block.cores == Cores::one_and_all && most > 1)) cores.push_back(1);
    if (block.cores != Cores::one) cores.push_back(most);
    return given_or(options_.cores, cores);
  }

  /// A block with a list of methods has peers only where it says so, also those that --peers names: else one
  /// peer would take most of a preset's time.
  [[nodiscard]] bool has_method(const Method& method) const {
    const bool by_name = contains(block_->methods, method.name);
    const bool listed =
        block_->methods.empty() || by_name || (block_->peers && method.role == harness::Role::peer);
    if (contains(options_.methods, method.name)) return true;
    if (contains(options_.peers, method.name)) return listed;
    return options_.methods.empty() && (method.asked_only ? by_name : listed);
  }

  /// Every combination of the shape's axes; placement, method, device, direction and cores are still open.
  std::vector<Identity> shapes(const Block& block) {
    if (!options_.row_bytes.empty() && (!options_.dims.empty() || !options_.dtypes.empty())) {
      throw UsageError("--row-bytes gives the width of a row by itself; leave out --dim and --dtype");
    }
    const bool typed = !options_.dims.empty() || !options_.dtypes.empty();
    const auto widths = given_or(options_.row_bytes, typed ? Counts{} : block.row_bytes);
    const bool bytes = !widths.empty();
    const auto dtypes = block.dtypes.empty() ? Names{standard_dtype} : block.dtypes;
    const auto batches = !block.batches.empty()     ? block.batches
                         : options_.callers.empty() ? Counts{standard_batch}
                                                    : Counts{caller_batch};
    const auto rows = block.rows.empty() ? Counts{block.table_bytes > 0 ? 0 : standard_rows} : block.rows;
    const auto dims = block.dims.empty() ? Counts{standard_dim} : block.dims;
    Names distributions;
    for (const auto& name : given_or(options_.distributions, block.distributions))
      add_once(distributions, distributions_.at(name));
    std::vector<Identity> all(1);
    all.front().suite = "transfer";
    all.front().axes = transfer_axes::further();
    cross(all, bytes ? Names{"bytes"} : given_or(options_.dtypes, dtypes), &Identity::dtype);
    cross(all, given_or(options_.rows, rows), &Identity::rows);
    cross(all, bytes ? widths : given_or(options_.dims, dims), &Identity::dim);
    cross(all, given_or(options_.batches, batches), &Identity::batch);
    cross(all, distributions, &Identity::distribution);
    cross(all, given_or(options_.index_dtypes, block.index_dtypes), &Identity::index_dtype);
    cross_axis(all, "isa", given_or(options_.isas, {"best"}));
    cross_axis(all, "cache", given_or(options_.caches, block.caches.empty() ? Names{"warm"} : block.caches));
    cross_axis(all, "callers", given_or(options_.callers, {1}));
    for (auto& id : all) {
      if (id.rows == 0 && options_.rows.empty()) id.rows = rows_within(block.table_bytes, id);
    }
    return all;
  }

  /// One of the further axes.
  template <class T>
  static void cross_axis(std::vector<Identity>& all, std::string_view axis, const std::vector<T>& values) {
    std::vector<Identity> crossed;
    for (const auto& id : all) {
      for (const auto& value : values) {
        crossed.push_back(id);
        std::ranges::find(crossed.back().axes, axis, &reports::Columns::value_type::first)->second = value;
      }
    }
    all = std::move(crossed);
  }

  /// The rows of a table of so many bytes, or of what the memory has room for.
  std::int64_t rows_within(std::int64_t table, const Identity& shape) {
    Identity row = shape;
    row.rows = 1;
    const auto width = shape_of(row).row_bytes();
    if (width < 1) return 1;  // check() says what is wrong
    const auto free = static_cast<double>(machine_.memory_available) * most_of_memory;
    const auto room =
        static_cast<std::int64_t>(free) - std::min(Arena::working_bytes(row), machine_.memory_available);
    const auto bytes = std::max(std::min(table, room), std::min(table, shape.batch * width));
    if (bytes < table && plan_.warnings.empty()) {
      plan_.warnings.push_back(
          fmt::format("tables have {} instead of {}: that is what the memory has room for",
                      harness::human_bytes(bytes), harness::human_bytes(table)));
    }
    return bytes / width;
  }

  template <class T>
  static void cross(std::vector<Identity>& all, const std::vector<T>& values, T Identity::*axis) {
    std::vector<Identity> crossed;
    for (const auto& one : all) {
      for (const auto& value : values) {
        crossed.push_back(one);
        crossed.back().*axis = value;
      }
    }
    all = std::move(crossed);
  }

  /// What is wrong with a shape, said before anything is allocated.
  void check(const Identity& shape) const {
    for (const auto& [name, value] : {std::pair{"--rows", shape.rows},
                                      std::pair{shape.dtype == "bytes" ? "--row-bytes" : "--dim", shape.dim},
                                      std::pair{"--batch", shape.batch}}) {
      if (value < 1) throw UsageError(fmt::format("{} {}: at least 1 is needed", name, value));
    }
    indices_.require(shape);
    if (shape.index_dtype == "int32" && shape.rows > std::numeric_limits<std::int32_t>::max()) {
      throw UsageError(fmt::format("--index-dtype int32 cannot name {} rows; use int64", shape.rows));
    }
    check_disk(shape);
    const bool in_files = std::ranges::all_of(placements_, [](const auto& name) { return name == "mapped"; });
    const auto needed = in_files ? Arena::working_bytes(shape) : needed_bytes(shape);
    if (needed > machine_.memory_available) {
      throw UsageError(
          fmt::format("{} × {} {} with a batch of {} needs {} ({} bytes), {} are available\nuse fewer --rows "
                      "or a smaller --batch",
                      shape.rows, shape.dim, shape.dtype, shape.batch, harness::human_bytes(needed), needed,
                      harness::human_bytes(machine_.memory_available)));
    }
  }

  /// A table in a file may be larger than memory, not than the disk.
  void check_disk(const Identity& shape) const {
    if (!contains(placements_, "mapped") || !disk_free_ || table_bytes(shape) <= *disk_free_) return;
    throw UsageError(
        fmt::format("{} × {} {} in a file needs {}; {} are free in the folder of TMPDIR, else /var/tmp\nuse "
                    "fewer --rows, "
                    "another TMPDIR, or other placements than mapped",
                    shape.rows, shape.dim, shape.dtype, harness::human_bytes(table_bytes(shape)),
                    harness::human_bytes(*disk_free_)));
  }

  /// Why a cell cannot be warm: not all pages of its file fit into memory. Empty where it can.
  [[nodiscard]] std::string warm_refusal(const Identity& cell) const {
    const bool fits = needed_bytes(cell) <= machine_.memory_available;
    if (fits || cell.placement != "mapped" || is_cold(cell)) return {};
    return fmt::format(
        "the file has {} and {} of memory are available, so its pages cannot all be warm; use "
        "--cache cold or fewer --rows",
        harness::human_bytes(table_bytes(cell)), harness::human_bytes(machine_.memory_available));
  }

  /// What a GPU must hold: the model tensor and the values, and a table of its own where one is asked for.
  void check_device(const Identity& shape, const std::string& device) const {
    if (device == "cpu") return;
    const auto free = speedtorch::cuda_free_bytes(at::Device(device));
    const auto needed =
        Arena::working_bytes(shape) + (contains(placements_, "device") ? table_bytes(shape) : 0);
    if (needed > free) {
      throw UsageError(
          fmt::format("{} × {} {} with a batch of {} needs {} on {}, {} are free\nuse fewer --rows, a "
                      "smaller --batch or other placements than device",
                      shape.rows, shape.dim, shape.dtype, shape.batch, harness::human_bytes(needed), device,
                      harness::human_bytes(free)));
    }
  }

  /// `sum` is made of the other two.
  [[nodiscard]] Names measured_directions(const Block& block) const {
    const auto wanted = given_or(options_.directions, block.directions);
    Names measured;
    for (const std::string direction : {"to", "from", "round_trip", "both"}) {
      const bool for_sum = (direction == "to" || direction == "from") && contains(wanted, "sum");
      if (for_sum || contains(wanted, direction)) measured.push_back(direction);
    }
    return measured;
  }

  void add_groups(const Identity& shape, const std::string& device, std::int64_t cores,
                  const std::string& direction) {
    Identity cell = shape;
    cell.device = device, cell.cores = cores, cell.direction = direction;
    Names placements;
    for (const auto& placement : placements_) {
      if (device != "cpu" || !cuda_only(placement)) placements.push_back(placement);
    }
    const double together = static_cast<double>(needed_bytes(shape)) * static_cast<double>(placements.size());
    const bool share = together <= shared_memory_part * static_cast<double>(machine_.memory_available);
    TransferPlan::Cases group;
    for (const auto& placement : placements) {
      if (device != "cpu" && !is_usual_axis(cell, "isa")) continue;  // --isa is of the host's kernels
      cell.placement = placement;
      if (const auto reason = warm_refusal(cell); !reason.empty()) {
        cell.method = "speedtorch";
        if (planned_.insert(harness::format_case(cell, {})).second) waive(cell, reason);
        continue;
      }
      for (auto& id : cases_of(cell)) {
        auto* earlier = group_of(id);
        (earlier ? *earlier : group).cases.push_back(std::move(id));
      }
      if (!share) close(group);
    }
    close(group);
  }

  /// The closed group that has this case's cell: an earlier block's, of which this one adds methods. They are
  /// measured in the same rounds.
  TransferPlan::Cases* group_of(Identity id) {
    id.method.clear();
    const auto known = groups_of_cells_.find(harness::format_case(id, {}));
    return known == groups_of_cells_.end() ? nullptr : &plan_.groups[known->second];
  }

  void close(TransferPlan::Cases& group) {
    if (group.cases.empty()) return;
    for (auto id : group.cases) {
      id.method.clear();
      groups_of_cells_.emplace(harness::format_case(id, {}), plan_.groups.size());
    }
    plan_.groups.push_back(std::exchange(group, {}));
    blocks_of_groups_.push_back(block_);
  }

  std::vector<Identity> cases_of(Identity cell) {
    std::vector<Identity> cases;
    for (const auto& method : methods()) {
      cell.method = method.name;
      const bool supports =
          method.supports(cell) && direction_supported(cell) && !(method.open && cell.direction == "both");
      if (!has_method(method) || !supports || !planned_.insert(harness::format_case(cell, {})).second)
        continue;
      auto reason = direction_skip_reason(cell);
      if (reason.empty() && method.open && callers_of(cell) > 1)
        reason = "a peer in a process of its own is one caller; use --callers 1";
      if (reason.empty()) reason = method.skip_reason(cell);
      if (reason.empty()) {
        cases.push_back(cell);
      } else {
        waive(cell, reason);
      }
    }
    return cases;
  }

  void waive(const Identity& id, const std::string& reason) {
    plan_.waived.push_back(reports::unmeasured(id, Status::waived, reason));
  }

  /// One line a placement for the GPU that is not there; nothing where the user chose the devices.
  void waive_without_gpu(const Block& block) {
    const auto& cuda = speedtorch::cuda_status();
    if (cuda.available || !options_.devices.empty() || block.devices == Block::Devices::host) return;
    for (const auto& placement : placements_of(block)) {
      Identity id = shapes(block).front();
      id.direction = measured_directions(block).front(), id.placement = placement, id.device = "cuda:0";
      id.method = cuda_only(placement) ? "speedtorch" : "staged";
      id.cores = cores_of(block).back();
      const auto said = [&](const Record& record) {
        return record.id.placement == placement && record.id.device == id.device;
      };
      if (!direction_supported(id) || std::ranges::any_of(plan_.waived, said)) continue;
      waive(id, fmt::format("missing: {}; {}", cuda.missing, cuda.cure));
    }
  }

  /// One line for each method that was asked for by name as a peer and has no part in any of the cells.
  void waive_absent_peers(const Block& block) {
    const auto takes_part = [&](const Method& method) {
      const auto is_its = [&](const Identity& id) { return id.method == method.name; };
      return std::any_of(plan_.groups.begin(), plan_.groups.end(),
                         [&](const auto& group) {
                           return std::any_of(group.cases.begin(), group.cases.end(), is_its);
                         }) ||
             std::any_of(plan_.waived.begin(), plan_.waived.end(),
                         [&](const Record& record) { return is_its(record.id); });
    };
    for (const auto& method : methods()) {
      if (!contains(options_.peers, method.name) || takes_part(method)) continue;
      Identity id = shapes(block).front();
      id.direction = measured_directions(block).front(), id.placement = placements_of(block).front();
      id.device = devices_.front(), id.cores = cores_of(block).back(), id.method = method.name;
      waive(id, fmt::format("takes part in {}; none is among the cells of this run", method.where));
    }
  }

  [[nodiscard]] std::string nothing_to_do() const {
    Names all_placements;
    for (const auto& pass : passes()) all_placements.insert(all_placements.end(), pass.begin(), pass.end());
    const char* isa =
        options_.isas.empty() ? "" : "\n--isa is of the host's kernels: it goes with --device cpu";
    const bool both = options_.directions == Names{"both"};
    return fmt::format(
        "nothing to measure: no method of --method {} goes from --placement {} to --device {}{}{}",
        options_.methods.empty() ? "(all)" : fmt::format("{}", fmt::join(options_.methods, ",")),
        fmt::join(all_placements, ","), fmt::join(devices_, ","), isa,
        both ? "\n--direction both is between pinned memory and a GPU" : "");
  }

  const Options& options_;
  const harness::Machine& machine_;
  std::optional<std::int64_t> disk_free_;
  const Preset& preset_;
  TransferIndices& indices_;
  const Block* block_ = nullptr;  ///< that is planned now
  Names placements_, devices_;
  std::map<std::string, std::string> distributions_;    ///< as given, and as reports name them
  std::set<std::string> planned_;                       ///< sentences: no case is planned twice
  std::map<std::string, std::size_t> groups_of_cells_;  ///< by the sentence without a method
  std::vector<const Block*> blocks_of_groups_;
  TransferPlan plan_;
};

}  // namespace

TransferPlan plan_transfer(const Options& options, const harness::Machine& machine,
                           std::optional<std::int64_t> disk_free, TransferIndices& indices) {
  return TransferPlanner(options, machine, disk_free, indices).plan();
}

}  // namespace stbench

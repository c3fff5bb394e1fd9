#include "benchmarks/transfer_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "benchmarks/method.h"
#include "benchmarks/transfer_axes.h"
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
constexpr std::int64_t standard_rows = 1'000'000, standard_dim = 128, standard_batch = 131'072;

/// Tables of all placements may share the rounds while they take no more than this part of the free memory.
constexpr double shared_memory_part = 0.6;

bool cuda_only(const std::string& placement) { return placement == "pinned" || placement == "device"; }

/// `cuda` is cuda:0. @throws UsageError where there is no such device.
std::string resolve_device(const std::string& device) {
  if (device == "cpu") return device;
  const auto& cuda = speedtorch::cuda_status();
  const auto name = device == "cuda" ? "cuda:0" : device;
  const bool numbered = name.starts_with("cuda:") && name.size() > 5 &&
                        name.find_first_not_of("0123456789", 5) == std::string::npos;
  if (!numbered)
    throw UsageError(fmt::format("--device '{}' is unknown; it takes cpu, cuda or cuda:N", device));
  if (!cuda.available) {
    throw UsageError(
        fmt::format("--device {} cannot be used here\nfound: {}; missing: {}\n{}, or use --device cpu",
                    device, cuda.found, cuda.missing, cuda.cure));
  }
  if (harness::parse_count(name.substr(5), "--device") >= cuda.devices) {
    throw UsageError(fmt::format("--device {}: this machine has {} GPU(s), cuda:0 to cuda:{}", device,
                                 cuda.devices, cuda.devices - 1));
  }
  return name;
}

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
class Planner {
 public:
  Planner(const Options& options, const harness::Machine& machine, TransferIndices& indices)
      : options_(options), machine_(machine), preset_(preset_of(options)), indices_(indices) {
    placements_ = given_or(options.placements, preset_.placements);
    read_devices();
    read_cores();
    read_methods();
    for (const auto& name : given_or(options.distributions, preset_.distributions))
      add_once(distributions_, indices.add(name));
  }

  TransferPlan plan() {
    for (const auto& shape : shapes()) {
      check(shape);
      for (const auto& device : devices_) {
        check_device(shape, device);
        for (const auto cores : cores_) {
          for (const auto& direction : measured_directions()) add_groups(shape, device, cores, direction);
        }
      }
    }
    waive_without_gpu(shapes().front());
    waive_absent_peers(shapes().front());
    if (plan_.groups.empty() && plan_.waived.empty()) throw UsageError(nothing_to_do());
    const double share = preset_.seconds / static_cast<double>(std::max<std::size_t>(1, plan_.groups.size()));
    for (auto& group : plan_.groups) group.seconds = std::min(share, preset_.group_seconds);
    return std::move(plan_);
  }

 private:
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

  void read_cores() {
    const std::int64_t all = machine_.allowed_cores;
    cores_ = given_or(options_.cores, preset_.all_cores_only || all == 1 ? Counts{all} : Counts{1, all});
    for (const auto cores : cores_) {
      if (cores < 1 || cores > all) {
        throw UsageError(
            fmt::format("--cores {}: this process may use {} (affinity and control group count); use 1 to {}",
                        cores, all, all));
      }
    }
  }

  void read_methods() {
    for (const auto& method : methods()) {
      const bool named = contains(options_.methods, method.name) || contains(options_.peers, method.name);
      if (named || (options_.methods.empty() && !method.asked_only)) methods_.push_back(&method);
    }
  }

  /// Every combination of the shape's axes; placement, method, device, direction and cores are still open.
  std::vector<Identity> shapes() const {
    const bool bytes = !options_.row_bytes.empty();
    if (bytes && (!options_.dims.empty() || !options_.dtypes.empty())) {
      throw UsageError("--row-bytes gives the width of a row by itself; leave out --dim and --dtype");
    }
    std::vector<Identity> all(1);
    all.front().suite = "transfer";
    all.front().axes = transfer_axes::further();
    cross(all, bytes ? Names{"bytes"} : given_or(options_.dtypes, preset_.dtypes), &Identity::dtype);
    cross(all, given_or(options_.rows, {standard_rows}), &Identity::rows);
    cross(all, bytes ? options_.row_bytes : given_or(options_.dims, {standard_dim}), &Identity::dim);
    cross(all, given_or(options_.batches, {standard_batch}), &Identity::batch);
    cross(all, distributions_, &Identity::distribution);
    cross(all, given_or(options_.index_dtypes, preset_.index_dtypes), &Identity::index_dtype);
    return all;
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
    const auto needed = needed_bytes(shape);
    if (needed > machine_.memory_available) {
      throw UsageError(
          fmt::format("{} × {} {} with a batch of {} needs {} ({} bytes), {} are available\nuse fewer --rows "
                      "or a smaller --batch",
                      shape.rows, shape.dim, shape.dtype, shape.batch, harness::human_bytes(needed), needed,
                      harness::human_bytes(machine_.memory_available)));
    }
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
  [[nodiscard]] Names measured_directions() const {
    const auto wanted = directions_of(options_);
    Names measured;
    for (const char* direction : {"to", "from", "round_trip"}) {
      const bool for_sum = std::string(direction) != "round_trip" && contains(wanted, "sum");
      if (for_sum || contains(wanted, direction)) measured.emplace_back(direction);
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
      cell.placement = placement;
      for (auto& id : cases_of(cell)) group.cases.push_back(std::move(id));
      if (!share) close(group);
    }
    close(group);
  }

  void close(TransferPlan::Cases& group) {
    if (!group.cases.empty()) plan_.groups.push_back(std::exchange(group, {}));
  }

  std::vector<Identity> cases_of(Identity cell) {
    std::vector<Identity> cases;
    for (const auto* method : methods_) {
      cell.method = method->name;
      if (!method->applies(cell)) continue;
      if (const auto reason = method->refuses(cell); reason.empty()) {
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
  void waive_without_gpu(const Identity& shape) {
    const auto& cuda = speedtorch::cuda_status();
    if (cuda.available || !options_.devices.empty()) return;
    for (const auto& placement : placements_) {
      Identity id = shape;
      id.direction = measured_directions().front(), id.placement = placement, id.device = "cuda:0";
      id.method = cuda_only(placement) ? "speedtorch" : "staged";
      id.cores = cores_.back();
      waive(id, fmt::format("missing: {}; {}", cuda.missing, cuda.cure));
    }
  }

  /// One line for each method that was asked for by name as a peer and has no part in any of the cells.
  void waive_absent_peers(const Identity& shape) {
    const auto takes_part = [&](const Method& method) {
      const auto is_its = [&](const Identity& id) { return id.method == method.name; };
      return std::any_of(plan_.groups.begin(), plan_.groups.end(),
                         [&](const auto& group) {
                           return std::any_of(group.cases.begin(), group.cases.end(), is_its);
                         }) ||
             std::any_of(plan_.waived.begin(), plan_.waived.end(),
                         [&](const Record& record) { return is_its(record.id); });
    };
    for (const auto* method : methods_) {
      if (!contains(options_.peers, method->name) || takes_part(*method)) continue;
      Identity id = shape;
      id.direction = measured_directions().front(), id.placement = placements_.front();
      id.device = devices_.front(), id.cores = cores_.back(), id.method = method->name;
      waive(id, fmt::format("takes part in {}; none is among the cells of this run", method->where));
    }
  }

  [[nodiscard]] std::string nothing_to_do() const {
    return fmt::format(
        "nothing to measure: no method of --method {} goes from --placement {} to --device {}",
        options_.methods.empty() ? "(all)" : fmt::format("{}", fmt::join(options_.methods, ",")),
        fmt::join(placements_, ","), fmt::join(devices_, ","));
  }

  const Options& options_;
  const harness::Machine& machine_;
  const Preset& preset_;
  TransferIndices& indices_;
  Names placements_, devices_, distributions_;
  Counts cores_;
  std::vector<const Method*> methods_;
  TransferPlan plan_;
};

}  // namespace

TransferPlan plan_transfer(const Options& options, const harness::Machine& machine,
                           TransferIndices& indices) {
  return Planner(options, machine, indices).plan();
}

}  // namespace stbench

#include "benchmarks/memory/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "benchmarks/memory/allocator.h"
#include "benchmarks/peers/peers.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/closed_axes.h"
#include "benchmarks/suite/devices.h"
#include "benchmarks/suite/suite.h"
#include "benchmarks/tables/row_shape.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "speedtorch/cuda.h"

namespace stbench {
namespace {

using reports::Identity;
using reports::Record;
using reports::Status;
using Names = std::vector<std::string>;

/// SpeedTorch's table.
constexpr std::int64_t memory_rows = 10'000'000, quick_rows = 1'000'000, memory_dim = 128;
/// A standard table leaves the rest of the free memory to others.
constexpr double most_of_memory = 0.8;
/// A further case touches only this part of a mapped file, whose resident part follows what was touched.
constexpr double part_of_a_file = 0.25;

/// @throws UsageError naming the part of the case ID that is not known
Identity checked_case(const std::string& text) {
  const auto id = case_of(text, "memory");
  require_known(id.direction, "--case: direction", {"in"});
  if (const auto touched = axis<double>(id, "touched"); !(touched > 0 && touched <= 1))
    throw UsageError(fmt::format("--case: touched={} is no part of a table; use 1 or less", touched));
  return id;
}

/// @throws UsageError if the table has no row, no column or more than 2^63 bytes
std::int64_t bytes_of(const Identity& shape) {
  require_positive({{"--rows", shape.rows}, {shape.dtype == "bytes" ? "--row-bytes" : "--dim", shape.dim}});
  std::int64_t width = 0, bytes = 0;
  if (__builtin_mul_overflow(shape.dim, shape_of({.dtype = shape.dtype, .rows = 1, .dim = 1}).row_bytes(),
                             &width) ||
      __builtin_mul_overflow(shape.rows, width, &bytes)) {
    throw UsageError(fmt::format("a table of {} × {} {} overflows: more than 2^63 bytes", shape.rows,
                                 shape.dim, shape.dtype));
  }
  return bytes;
}

class Planner {
 public:
  Planner(const Options& options, const TableFile* table, const harness::Machine& machine)
      : options_(options), table_(table), machine_(machine) {
    if (!options.case_id.empty()) only_ = checked_case(options.case_id);
    if (only_ && table != nullptr) require_shape_of(*table, *only_);
    read_devices();
  }

  MemoryPlan plan() {
    for (const auto& shape : shapes()) {
      for (const auto& placement : placements()) {
        for (const auto& allocator : allocators()) {
          if (takes_part(allocator) && contains(allocator.placements, placement))
            add(shape, allocator, placement);
        }
      }
    }
    waive_absent_peers();
    if (plan_.cases.empty() && plan_.waived.empty()) throw UsageError(nothing_to_do());
    return std::move(plan_);
  }

 private:
  /// `pinned` and `device` belong to the given device, all other placements to the processor.
  void read_devices() {
    const auto given = only_ ? Names{only_->device} : options_.devices;
    for (const auto& name : given) add_once(devices_, resolve_device(name));
    if (!devices_.empty()) require_gpu_for(options_.placements, devices_);
  }

  [[nodiscard]] Names placements() const {
    if (only_) return {only_->placement};
    return given_or(options_.placements, closed_axes::placements());
  }

  [[nodiscard]] bool takes_part(const TableAllocator& allocator) const {
    if (only_) return allocator.name == only_->method;
    if (contains(options_.methods, allocator.name) || contains(options_.peers, allocator.name)) return true;
    return options_.methods.empty() && !allocator.asked_only;
  }

  /// Empty if there is no GPU: its placements are then waived.
  [[nodiscard]] Names devices_for(const std::string& placement) const {
    Names devices = devices_;
    if (devices.empty()) {
      devices = {"cpu"};
      if (speedtorch::cuda_status().available) devices.emplace_back("cuda:0");
    }
    std::erase_if(devices,
                  [&](const std::string& device) { return cuda_only(placement) == (device == "cpu"); });
    return devices;
  }

  /// Every combination of the shape's axes.
  std::vector<Identity> shapes() {
    if (only_) return {*only_};
    if (!options_.row_bytes.empty() && (!options_.dims.empty() || !options_.dtypes.empty()))
      throw UsageError("--row-bytes gives the width of a row by itself; leave out --dim and --dtype");
    const bool bytes = !options_.row_bytes.empty();
    std::vector<Identity> all{{.suite = "memory", .direction = "in", .axes = memory_axes()}};
    cross(all, bytes ? Names{"bytes"} : given_or(options_.dtypes, {"float32"}), &Identity::dtype);
    cross(all, bytes ? options_.row_bytes : given_or(options_.dims, {memory_dim}), &Identity::dim);
    cross(
        all,
        [&](const Identity& shape) {
          return options_.rows.empty() ? std::vector{rows_that_fit(shape)} : options_.rows;
        },
        &Identity::rows);
    return all;
  }

  /// The preset's rows, halved until the memory has room for them.
  std::int64_t rows_that_fit(Identity shape) {
    shape.rows = options_.preset == "quick" ? quick_rows : memory_rows;
    const auto wanted = shape.rows;
    const auto room =
        static_cast<std::int64_t>(static_cast<double>(machine_.memory_available) * most_of_memory);
    while (shape.rows > 1 && most_needed(shape) > room) shape.rows /= 2;
    if (shape.rows < wanted) {
      plan_.warnings.push_back(
          fmt::format("memory: {} rows are held instead of {}: that is what the memory has room for",
                      harness::human(shape.rows), harness::human(wanted)));
    }
    return shape.rows;
  }

  /// Bytes of the host's memory that the largest case of a shape takes.
  [[nodiscard]] std::int64_t most_needed(const Identity& shape) const {
    const auto bytes = bytes_of(shape);
    std::int64_t most = 0;
    for (const auto& allocator : allocators()) {
      for (const auto& placement : allocator.placements) {
        const bool planned = takes_part(allocator) && contains(placements(), placement);
        if (planned && placement != "device" && !devices_for(placement).empty())
          most = std::max(most, allocator.needs(placement, bytes));
      }
    }
    return most;
  }

  void add(Identity id, const TableAllocator& allocator, const std::string& placement) {
    id.method = allocator.name, id.placement = placement;
    const auto devices = devices_for(placement);
    if (devices.empty()) waive_without_gpu(id);
    for (const auto& device : devices) {
      id.device = device;
      require_room(id, allocator);
      if (const auto reason = reason_against(allocator); !reason.empty()) {
        plan_.waived.push_back(reports::unmeasured(id, Status::waived, reason));
        continue;
      }
      plan_.cases.push_back(id);
      if (placement == "mapped" && !only_) {
        reports::Columns axes = {{"touched", part_of_a_file}};
        std::swap(id.axes, axes);
        plan_.cases.push_back(id);
        std::swap(id.axes, axes);
      }
    }
  }

  /// Why an allocator cannot take part; empty if it can.
  [[nodiscard]] std::string reason_against(const TableAllocator& allocator) const {
    if (allocator.allocate) return {};
    if (table_ != nullptr) return "a peer fills its table by itself; leave out --table";
    return Peers::of_this_run().refusal(allocator.name);
  }

  /// @throws UsageError with what would fit
  void require_room(const Identity& id, const TableAllocator& allocator) const {
    const auto bytes = bytes_of(id);
    const auto needed = allocator.needs(id.placement, bytes);
    const auto free = id.placement == "device" ? speedtorch::cuda_free_bytes(at::Device(id.device))
                                               : machine_.memory_available;
    if (needed <= free) return;
    auto fitting = id;
    fitting.rows = free / (bytes / id.rows);
    while (fitting.rows > 0 && allocator.needs(id.placement, bytes_of(fitting)) > free) fitting.rows /= 2;
    const auto cure = fitting.rows > 0 ? fmt::format("--rows {} would fit", fitting.rows)
                                       : std::string("not even one row fits; use a smaller --dim");
    throw UsageError(fmt::format("{} × {} {} in {} needs {} ({} bytes), {} are available\n{}", id.rows,
                                 id.dim, id.dtype, id.placement, harness::human_bytes(needed), needed,
                                 harness::human_bytes(free), cure));
  }

  /// No-op if the user chose the devices.
  void waive_without_gpu(Identity id) {
    if (!devices_.empty()) return;
    const auto& cuda = speedtorch::cuda_status();
    id.device = "cuda:0";
    plan_.waived.push_back(
        reports::unmeasured(id, Status::waived, fmt::format("missing: {}; {}", cuda.missing, cuda.cure)));
  }

  /// One line for each peer that was asked for and allocates nothing here. With another suite it may take
  /// part there.
  void waive_absent_peers() {
    if (options_.suites.size() > 1) return;
    for (const auto& name : options_.peers) {
      const auto is_its = [&](const Identity& id) { return id.method == name; };
      if (std::ranges::any_of(plan_.cases, is_its) || std::ranges::any_of(plan_.waived, is_its, &Record::id))
        continue;
      const auto allocator = std::ranges::find(allocators(), name, &TableAllocator::name);
      auto id = shapes().front();
      id.method = name, id.device = devices_.empty() ? "cpu" : devices_.front();
      id.placement = placements().front();
      const auto where = allocator == allocators().end()
                             ? std::string("moves rows and holds no table: it goes with --suite transfer")
                             : fmt::format("holds tables in {} only", fmt::join(allocator->placements, ", "));
      plan_.waived.push_back(reports::unmeasured(id, Status::waived, where));
    }
  }

  [[nodiscard]] std::string nothing_to_do() const {
    Names known;
    for (const auto& allocator : allocators())
      known.push_back(fmt::format("{} ({})", allocator.name, fmt::join(allocator.placements, ", ")));
    return fmt::format(
        "nothing to hold: no --method of --suite memory is left in --placement {}{}\nmethods: {}",
        fmt::join(placements(), ","),
        devices_.empty() ? "" : fmt::format(" on --device {}", fmt::join(devices_, ",")),
        fmt::join(known, ", "));
  }

  const Options& options_;
  const TableFile* table_;
  const harness::Machine& machine_;
  std::optional<Identity> only_;  ///< the case of --case
  Names devices_;                 ///< given; empty: all there are
  MemoryPlan plan_;
};

}  // namespace

const harness::AxisDefaults& memory_axes() {
  static const harness::AxisDefaults axes{{"touched", 1.0}};
  return axes;
}

MemoryPlan plan_memory(const Options& options, const harness::Machine& machine, const TableFile* table) {
  return Planner(options, table, machine).plan();
}

}  // namespace stbench

#include "benchmarks/transfer/axes.h"

#include <fmt/format.h>

#include <limits>

#include "benchmarks/suite/cache_bytes.h"
#include "benchmarks/suite/suite.h"
#include "benchmarks/transfer/method.h"
#include "harness/errors.h"

namespace stbench {
namespace {

using Names = std::vector<std::string>;

using Counts = std::vector<std::int64_t>;

Block speedtorch_case() {
  Block block;
  block.dtypes = {"float32"}, block.index_dtypes = {"int64"}, block.distributions = {"unique"};
  return block;
}

Block quick() {
  auto block = speedtorch_case();
  block.directions = {"to", "from", "sum"};
  block.placements = {"libtorch", "hugepage", "pinned", "device"};
  block.cores = Block::Cores::all;
  block.seconds = 30, block.group_seconds = 15;
  return block;
}

Block standard() {
  auto block = speedtorch_case();
  block.directions = {"to", "from", "sum", "round_trip"}, block.placements = transfer_axes::placements();
  block.seconds = 260, block.group_seconds = 90;
  return block;
}

Block full() {
  using namespace transfer_axes;
  Block block;
  block.directions = directions(), block.placements = placements(), block.dtypes = dtypes();
  block.index_dtypes = index_dtypes();
  block.distributions = {"unique", "uniform", "sequential", "sorted", "zipf:1.05"};
  block.seconds = std::numeric_limits<double>::infinity(), block.group_seconds = 15;
  return block;
}

/// The limits of the kernels: rows of a 5 GB table, far beyond every cache and the reach of every TLB, in the
/// widths of today's tables and between them.
Block of_kernels() {
  Block block;
  block.directions = {"to", "from"}, block.placements = {"pageable", "hugepage"};
  block.index_dtypes = {"int64", "int32"}, block.distributions = {"unique"};
  block.methods = {"speedtorch", "index_select", "copy", "stream"};
  block.table_bytes = 5'000'000'000;
  block.cores = Block::Cores::all, block.devices = Block::Devices::host;
  return block;
}

const Counts& kernel_widths() {
  static const Counts widths{16, 32, 64, 128, 160, 256, 264, 512, 516, 656, 1024, 1152, 4096};
  return widths;
}

/// Adds a[i], which at other widths would take most of the time.
Block kernels_at_512() {
  auto block = of_kernels();
  block.row_bytes = {512};
  block.methods.emplace_back("advanced");
  block.seconds = 20, block.group_seconds = 4;
  return block;
}

Block kernels_at_each_width() {
  auto block = of_kernels();
  block.row_bytes = kernel_widths();
  block.seconds = 120, block.group_seconds = 3;
  return block;
}

Block kernels_on_one_core() {
  auto block = kernels_at_each_width();
  block.directions = {"to"}, block.index_dtypes = {"int64"};
  block.cores = Block::Cores::one;
  block.peers = true;
  block.seconds = 40, block.group_seconds = 3;
  return block;
}

/// Latency: LibTorch's other way costs nothing to measure here, and no contiguous copy is a limit.
Block kernels_on_small_batches() {
  auto block = of_kernels();
  block.row_bytes = {160, 512}, block.index_dtypes = {"int64"};
  block.batches = {1, 8, 24, 64, 384, 1536};
  block.methods = {"speedtorch", "index_select", "advanced"};
  block.cores = Block::Cores::one_and_all;
  block.seconds = 30, block.group_seconds = 0.5;
  return block;
}

/// Outputs of 64 KiB to 256 MiB and a pass that reads them: a model pays for both.
Block kernels_and_a_reader() {
  auto block = of_kernels();
  block.directions = {"consume"};
  block.row_bytes = {512}, block.index_dtypes = {"int64"};
  block.batches = {128, 512, 2048, 8192, 32768, 131072, 524288};
  block.methods = {"speedtorch", "index_select"};
  block.seconds = 40, block.group_seconds = 3;
  return block;
}

Block kernels_over_cores() {
  auto block = kernels_at_512();
  block.index_dtypes = {"int64"};
  block.cores = Block::Cores::doubled;
  block.seconds = 30, block.group_seconds = 3;
  return block;
}

Block kernels_on_a_gpu() {
  auto block = of_kernels();
  block.placements = {"pinned", "device"};
  block.row_bytes = kernel_widths();
  block.methods = {"speedtorch", "hybrid", "index_select", "staged", "copy", "stream"};
  block.devices = Block::Devices::gpu;
  block.peers = true;
  block.seconds = 120, block.group_seconds = 3;
  return block;
}

/// This library's kernels on few multiprocessors of a GPU, and without a limit.
Names within_budgets() {
  Names names{"speedtorch"};
  for (const auto& method : methods()) {
    if (method.name.starts_with("speedtorch_")) names.push_back(method.name);
  }
  return names;
}

/// Finds how few multiprocessors saturate the link.
Block kernels_on_few_sms() {
  auto block = of_kernels();
  block.directions = {"to"}, block.placements = {"pinned"};
  block.index_dtypes = {"int64"}, block.row_bytes = {512};
  block.methods = within_budgets();
  block.devices = Block::Devices::gpu;
  block.seconds = 10, block.group_seconds = 3;
  return block;
}

/// Bidirectional transfers over the link. Without a budget the kernel of one direction takes all of the GPU,
/// and the other waits for it.
Block kernels_bidirectional() {
  auto block = kernels_on_few_sms();
  block.directions = {"both"};
  for (const char* name : {"index_select", "copy", "stream"}) block.methods.emplace_back(name);
  return block;
}

/// Files against memory, with all pages resident.
Block files_warm() {
  auto block = of_kernels();
  block.directions = {"to"}, block.placements = {"pageable", "mapped"}, block.index_dtypes = {"int64"};
  block.row_bytes = {64, 512, 4096};
  block.methods = {"speedtorch", "file_rows", "index_select", "pread", "copy"};
  block.seconds = 45, block.group_seconds = 15;
  return block;
}

/// Files with no page resident. Batches are small: 131,072 rows of 512 B would touch nearly every tenth page
/// of the table, so that the mapping's read-ahead, of all of the file, pays off. LibTorch's methods would
/// measure the plain mapping again, at seconds per sample.
Block files_cold() {
  auto block = files_warm();
  block.placements = {"mapped"};
  block.caches = {"cold"}, block.batches = {8192};
  block.methods = {"file_rows", "mmap", "pread", "io_uring"};
  block.seconds = 180, block.group_seconds = 60;
  return block;
}

Block memory_cold() {
  auto block = files_warm();
  block.placements = {"pageable"};
  block.caches = {"cold"}, block.batches = {8192};
  block.methods = {"speedtorch", "index_select"};
  block.seconds = 12, block.group_seconds = 4;
  return block;
}

/// The cost of a call: a round trip of a whole table of a few rows, which users of SpeedTorch asked for (6 ×
/// 3 to 20 × 3, float64). `copy` is LibTorch's copy, from pinned memory its pinned one.
Block small_table(std::int64_t rows) {
  auto block = speedtorch_case();
  block.directions = {"round_trip"}, block.placements = {"libtorch", "pageable", "pinned", "device"};
  block.dtypes = {"float64"};
  block.rows = {rows}, block.dims = {3}, block.batches = {rows};
  block.methods = {"speedtorch", "index_select", "advanced", "staged", "copy"};
  block.cores = Block::Cores::all;
  block.seconds = 5, block.group_seconds = 5;
  return block;
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all{
      {"quick", "libtorch and hugepage tables, all cores: at most half a minute.", {quick()}},
      {"standard", "Every placement and direction, on one core and on all: five minutes.", {standard()}},
      {"kernels",
       "Judged by scripts/goals: 13 row widths of a table of 5 GB, and small batches with their latency. "
       "Below ten minutes.",
       {kernels_at_512(), kernels_at_each_width(), kernels_on_one_core(), kernels_over_cores(),
        kernels_and_a_reader(), kernels_on_small_batches(), kernels_on_a_gpu(), kernels_on_few_sms(),
        kernels_bidirectional()},
       /*by_placement=*/true},
      {"files",
       "Judged by scripts/goals: warm and cold rows of 64 B, 512 B and 4 KiB from mapped tables. About five "
       "minutes.",
       {files_warm(), files_cold(), memory_cold()}},
      {"full", "Every value of the closed axes, warm: hours; --dry-run says how many.", {full()}},
      {"small",
       "Tables of 6×3 to 20×3 elements there and back, and how often a second.",
       {small_table(6), small_table(12), small_table(20)}},
  };
  return all;
}

Names of_all_blocks(const Preset& preset, Names Block::*axis) {
  Names all;
  for (const auto& block : preset.blocks) {
    for (const auto& name : block.*axis) add_once(all, name);
  }
  return all;
}

}  // namespace

namespace transfer_axes {

const harness::AxisDefaults& further() {
  static const harness::AxisDefaults axes{{"cache", "warm"},
                                          {"cache_bytes", std::int64_t{0}},
                                          {"callers", std::int64_t{1}},
                                          {"index_home", "ready"},
                                          {"isa", "best"}};
  return axes;
}

}  // namespace transfer_axes

Options options_for_case(const Options& options) {
  if (options.case_id.empty()) return options;
  const auto id = case_of(options.case_id, "transfer");
  Options one = options;
  one.isas = {axis<std::string>(id, "isa")}, one.caches = {axis<std::string>(id, "cache")};
  one.callers = {axis<std::int64_t>(id, "callers")};
  if (const auto bytes = axis<std::int64_t>(id, "cache_bytes"); bytes > 0) set_cache_bytes(one, bytes);
  one.directions = {id.direction}, one.placements = {id.placement}, one.devices = {id.device};
  one.distributions = {id.distribution}, one.index_dtypes = {id.index_dtype};
  one.rows = {id.rows}, one.batches = {id.batch}, one.cores = {id.cores};
  one.dtypes.clear(), one.dims.clear(), one.row_bytes.clear(), one.methods.clear();
  if (id.dtype == "bytes") {
    one.row_bytes = {id.dim};
  } else {
    one.dtypes = {id.dtype}, one.dims = {id.dim};
  }
  for (const auto& method : methods()) {
    const bool reference = method.role == harness::Role::libtorch || method.role == harness::Role::ceiling;
    if (reference || method.name == id.method) one.methods.push_back(method.name);
  }
  return one;
}

const Preset& preset_of(const Options& options) {
  const auto found = std::ranges::find(presets(), options.preset, &Preset::name);
  if (found == presets().end()) throw UsageError("--suite transfer has no preset " + options.preset);
  return *found;
}

std::vector<PresetInfo> preset_list() {
  std::vector<PresetInfo> list;
  for (const auto& preset : presets()) list.emplace_back(preset.name, preset.help);
  return list;
}

Names directions_of(const Options& options) {
  if (contains(options.directions, "step"))
    throw UsageError(
        "--suite transfer has no --direction step; use to, from, sum, round_trip, both or consume");
  return given_or(options.directions, of_all_blocks(preset_of(options), &Block::directions));
}

Names placements_of(const Options& options) {
  return given_or(options.placements, of_all_blocks(preset_of(options), &Block::placements));
}

}  // namespace stbench

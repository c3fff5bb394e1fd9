#include "benchmarks/advise/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "benchmarks/suite/axes.h"
#include "benchmarks/tables/row_shape.h"
#include "benchmarks/tables/table_store.h"
#include "harness/errors.h"
#include "harness/machine.h"
#include "harness/numbers.h"
#include "speedtorch/cuda.h"
#include "speedtorch/system/limits.h"
#include "speedtorch/tables/memory_plan.h"

namespace stbench::advise {
namespace {

using harness::human_bytes;
using speedtorch::MemoryBudgets;
using speedtorch::Placement;

/// Bytes of the table and its states that are measured at the most: several times what one virtual machine
/// gets of a last-level cache, and made in seconds.
constexpr std::int64_t most_measured = std::int64_t{1} << 30;

/// Look-ups of at most so many bytes take milliseconds: a hundred of them, which have a 99 % quantile, fit.
constexpr std::int64_t quick_payload = std::int64_t{64} << 20;
constexpr int quick_samples = 101;

/// Parts of the time. Cold look-ups take most of it, because the caches are emptied before each.
constexpr double warm_part = 0.25, cold_part = 0.45, step_part = 0.3;

constexpr std::int64_t unlimited = std::int64_t{1} << 62;

/// The limit that the user gave, or else what is free.
std::int64_t within(const std::optional<std::int64_t>& asked, std::int64_t free, const char* option,
                    const std::string& limit) {
  if (!asked) return free;
  if (*asked <= free) return *asked;
  throw UsageError(fmt::format("{} {}: {} are free here under {}; use at most that", option,
                               human_bytes(*asked), human_bytes(free), limit));
}

/// The bytes that the table and its states take from each budget in one placement, however much there is.
MemoryBudgets use_of(const Question& question, Placement placement) {
  const speedtorch::PlannedTable table{"table",         question.rows,
                                       question.dim,    row_shape(dtype_named(question.dtype), 1, 1).dtype,
                                       question.states, {placement}};
  return speedtorch::plan_memory({table}, {unlimited, unlimited, unlimited, unlimited}).used;
}

std::string too_large(const char* kind, std::int64_t needed, std::int64_t free, const std::string& limit) {
  if (needed <= free) return {};
  return fmt::format("needs {} {}, {} more than {}", human_bytes(needed), kind, human_bytes(needed - free),
                     limit);
}

/// @param new_on_disk bytes of files that are not there yet
std::string misfit_of(const Bytes& bytes, std::int64_t new_on_disk, const Room& room) {
  auto text = too_large("of memory", bytes.memory, room.memory, room.memory_limit);
  if (text.empty()) text = too_large("on the device", bytes.device, room.device, room.device_limit);
  return text.empty() ? too_large("of disk", new_on_disk, room.disk, room.disk_limit) : text;
}

/// A file whose pages stay in memory takes memory as well as disk.
Bytes bytes_of(const Question& question, const Choice& choice) {
  const auto used = use_of(question, choice.placement);
  const bool resident = choice.name == "mapped";
  return {resident ? used.file : used.host, used.device, used.file};
}

/// A table of a file is there already, its states are not.
std::int64_t bytes_there(const Question& question, const Choice& choice) {
  return question.file.empty() || choice.bytes.disk == 0 ? 0 : question.table_bytes();
}

Choice choice(const char* name, const char* where, Placement placement, int rank) {
  Choice one;
  one.name = name, one.where = where, one.placement = placement, one.rank = rank;
  one.caches = {"warm", "cold"};
  return one;
}

std::vector<Choice> all_choices() {
  auto file = choice("file", "a file, no row of which is in memory", Placement::mapped, 0);
  file.caches = {"cold"};
  auto resident = choice("mapped", "a file whose pages all stay in memory", Placement::mapped, 1);
  resident.caches = {"warm"}, resident.compared_only = true;
  return {std::move(file),
          choice("libtorch", "memory, as LibTorch allocates it", Placement::libtorch, 1),
          choice("hugepage", "memory in huge pages", Placement::hugepage, 1),
          std::move(resident),
          choice("pinned", "pinned memory, which the GPU reads", Placement::pinned, 2),
          choice("device", "the GPU's memory", Placement::device, 3)};
}

/// Placements of choices that are measured with these caches.
std::vector<std::string> placements_of(const std::vector<Choice>& choices, const char* cache) {
  std::vector<std::string> names;
  for (const auto& choice : choices) {
    if (choice.misfit.empty() && choice.unmeasured.empty() && contains(choice.caches, cache))
      add_once(names, std::string(to_string(choice.placement)));
  }
  return names;
}

RunWords shape_words(const Question& question, const Room& room) {
  return {"--rows",         std::to_string(measured_rows(question)),
          "--dim",          std::to_string(question.dim),
          "--batch",        std::to_string(question.batch),
          "--device",       room.has_gpu() ? "cuda:0" : "cpu",
          "--distribution", question.distribution,
          "--cores",        std::to_string(room.cores)};
}

RunWords joined(RunWords words, const RunWords& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

RunWords budget(const Question& question, double part) {
  return {"--time-budget", fmt::format("{:.1f}", question.time_budget_s * part)};
}

/// How long to sample. The interval and the 99 % quantile of quick look-ups take a known number of them.
RunWords effort(const Question& question, bool cold) {
  if (!cold && question.batch <= quick_payload / question.row_bytes())
    return {"--samples", std::to_string(quick_samples)};
  return budget(question, cold ? cold_part : warm_part);
}

RunWords gather_words(const Question& question, const std::vector<std::string>& placements, bool cold,
                      const Room& room) {
  // LibTorch's staged gather is the way from plain memory to a GPU.
  const char* methods = room.has_gpu() ? "speedtorch,file_rows,staged" : "speedtorch,file_rows";
  auto words = joined(
      {"--suite", "transfer", "--direction", "to", "--cache", cold ? "cold" : "warm", "--dtype",
       question.dtype, "--placement", fmt::format("{}", fmt::join(placements, ",")), "--method", methods},
      shape_words(question, room));
  // Cold page faults of a large batch take seconds, and FileRows is always faster.
  if (cold) words = joined(std::move(words), {"--filter", "(libtorch|hugepage|pinned|device) -> |file_rows"});
  return joined(std::move(words), effort(question, cold));
}

}  // namespace

Room room_for(const Question& question) {
  // As for pages that stay in memory: a table that was swapped out is slower than one in a file.
  const auto limits = speedtorch::memory_limits(speedtorch::MemoryUse::locked);
  const auto disk = speedtorch::disk_limits(table_folder());
  const auto& cuda = speedtorch::cuda_status();
  Room room;
  room.cores = harness::read_machine().allowed_cores;
  room.no_gpu = cuda.available ? "" : fmt::format("no GPU ({} is missing)", cuda.missing);
  const auto limit = limits.empty() ? std::string("no limit") : limits.front().name;
  room.memory = within(question.memory, limits.empty() ? unlimited : limits.front().free, "--memory", limit);
  room.memory_limit = question.memory ? "--memory" : limit;
  const auto on_device = cuda.available ? speedtorch::cuda_free_bytes(at::Device("cuda:0")) : 0;
  room.device = cuda.available
                    ? within(question.device_memory, on_device, "--device-memory", "the GPU's free memory")
                    : question.device_memory.value_or(0);
  room.device_limit = question.device_memory ? "--device-memory" : "the GPU's free memory";
  room.disk = disk.empty() ? unlimited : disk.front().free;
  room.disk_limit = disk.empty() ? "no limit" : disk.front().name;
  return room;
}

std::vector<Choice> choices_for(const Question& question, const Room& room) {
  auto choices = all_choices();
  for (auto& choice : choices) {
    choice.bytes = bytes_of(question, choice);
    const bool on_gpu = needs_cuda(choice.placement);
    if (on_gpu && !room.has_gpu()) choice.unmeasured = room.no_gpu;
    if (choice.placement != Placement::device || room.has_gpu() || question.device_memory)
      choice.misfit = misfit_of(choice.bytes, choice.bytes.disk - bytes_there(question, choice), room);
  }
  return choices;
}

std::int64_t measured_rows(const Question& question) {
  if (question.has_trace()) return question.rows;
  const auto most = most_measured / (question.row_bytes() * (1 + question.states));
  return std::min(question.rows, std::max(most, question.batch));
}

std::vector<RunWords> runs_for(const Question& question, const std::vector<Choice>& choices,
                               const Room& room) {
  std::vector<RunWords> runs;
  const auto warm = placements_of(choices, "warm"), cold = placements_of(choices, "cold");
  // A new file is still written to the disk while the first rows are measured: it has a run of its own.
  auto in_memory = warm;
  std::erase(in_memory, std::string(to_string(Placement::mapped)));
  if (!in_memory.empty()) runs.push_back(gather_words(question, in_memory, false, room));
  if (contains(warm, "mapped")) runs.push_back(gather_words(question, {"mapped"}, false, room));
  if (!cold.empty()) runs.push_back(gather_words(question, cold, true, room));
  if (question.trains() && !warm.empty())
    runs.push_back(
        joined(joined({"--suite", "optimizer", "--direction", "step", "--optimizer", question.optimizer,
                       "--method", "sparse_rows", "--placement", fmt::format("{}", fmt::join(warm, ","))},
                      shape_words(question, room)),
               budget(question, step_part)));
  return runs;
}

}  // namespace stbench::advise

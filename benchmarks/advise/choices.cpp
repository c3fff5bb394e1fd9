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

/// Bytes of the table and its states that are measured at the most: made in seconds.
constexpr std::int64_t most_measured = std::int64_t{2} << 30;

/// The part of a table that fits in memory which the cache of its file gets. One that does not fit gets all
/// of the memory but what a look-up takes beside the cache.
constexpr std::int64_t cached_part = 10;
constexpr std::int64_t beside_cache = std::int64_t{16} << 20;

/// Look-ups of at most this size take milliseconds, so that there is time for a hundred, which a 99 %
/// quantile needs.
constexpr std::int64_t quick_payload = std::int64_t{64} << 20;
constexpr int quick_samples = 101;

/// Parts of the time, for each run. Cold look-ups in files take most of it, because the caches are emptied
/// before each, and a row cache is filled before the first.
constexpr double warm_part = 0.25, cold_part = 0.25, file_part = 0.45, step_part = 0.3;

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
  return {resident ? used.file : used.host + choice.cache_bytes, used.device, used.file};
}

std::int64_t cache_for(const Question& question, const Room& room) {
  const auto all = question.table_bytes() * (1 + question.states);
  if (all <= room.memory) return all / cached_part;
  return room.memory - std::min(room.memory / 4, beside_cache + question.batch * question.row_bytes());
}

/// A cache of fewer rows is none.
std::string too_small_cache(const Question& question, const Choice& choice) {
  constexpr std::int64_t fewest_rows = 1000;
  const auto needed = fewest_rows * question.row_bytes() * (1 + question.states);
  if (choice.cache_bytes == 0 || choice.cache_bytes >= std::min(needed, question.table_bytes() / cached_part))
    return {};
  return fmt::format("a cache of {} has not {} rows", human_bytes(choice.cache_bytes),
                     harness::human(fewest_rows));
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
  auto cached = choice("cached", "a file, its hot rows in a RowCache", Placement::mapped, 1);
  cached.caches = {"cold"};
  auto resident = choice("mapped", "a file whose pages all stay in memory", Placement::mapped, 2);
  resident.caches = {"warm"}, resident.compared_only = true;
  return {std::move(file),
          std::move(cached),
          choice("libtorch", "memory, as LibTorch allocates it", Placement::libtorch, 2),
          choice("hugepage", "memory in huge pages", Placement::hugepage, 2),
          std::move(resident),
          choice("pinned", "pinned memory, which the GPU reads", Placement::pinned, 3),
          choice("device", "the GPU's memory", Placement::device, 4)};
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

RunWords joined(RunWords words, const RunWords& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The table: a file's own rows, of a large one the first; else its shape.
RunWords table_words(const Question& question) {
  const auto rows = measured_rows(question);
  if (question.table.empty())
    return {"--dtype", question.dtype, "--rows", std::to_string(rows), "--dim", std::to_string(question.dim)};
  RunWords words{"--table", question.table};
  return rows == question.rows ? words : joined(std::move(words), {"--rows", std::to_string(rows)});
}

RunWords shape_words(const Question& question, const Room& room) {
  return joined(table_words(question),
                {"--batch", std::to_string(question.batch), "--device", room.has_gpu() ? "cuda:0" : "cpu",
                 "--distribution", question.distribution, "--cores", std::to_string(room.cores)});
}

RunWords budget(const Question& question, double part) {
  return {"--time-budget", fmt::format("{:.1f}", question.time_budget_s * part)};
}

/// How long to sample. The interval and the 99 % quantile of quick look-ups take a known number of them.
RunWords effort(const Question& question, bool cold, bool in_file) {
  if (!cold && question.batch <= quick_payload / question.row_bytes())
    return {"--samples", std::to_string(quick_samples)};
  return budget(question, !cold ? warm_part : in_file ? file_part : cold_part);
}

/// The cache of the choice that has one and is measured; 0 if none is.
std::int64_t cache_to_measure(const Question& question, const std::vector<Choice>& choices) {
  for (const auto& choice : choices) {
    if (choice.cache_bytes > 0 && choice.misfit.empty() && choice.unmeasured.empty())
      return measured_cache_bytes(question, choice);
  }
  return 0;
}

RunWords cache_words(std::int64_t bytes) { return {"--cache-bytes", std::to_string(bytes)}; }

RunWords gather_words(const Question& question, const std::vector<std::string>& placements, bool cold,
                      const Room& room, std::int64_t cache_bytes = 0) {
  // LibTorch's staged gather is the way from plain memory to a GPU.
  std::string methods = room.has_gpu() ? "speedtorch,file_rows,staged" : "speedtorch,file_rows";
  if (cache_bytes > 0) methods += ",row_cache";
  auto words = joined({"--suite", "transfer", "--direction", "to", "--cache", cold ? "cold" : "warm",
                       "--placement", fmt::format("{}", fmt::join(placements, ",")), "--method", methods},
                      shape_words(question, room));
  // Cold page faults of a large batch take seconds, and FileRows is always faster.
  if (cold)
    words =
        joined(std::move(words), {"--filter", "(libtorch|hugepage|pinned|device) -> |file_rows|row_cache"});
  if (cache_bytes > 0) words = joined(std::move(words), cache_words(cache_bytes));
  return joined(std::move(words), effort(question, cold, contains(placements, "mapped")));
}

/// Runs that measure updates. Each has the tables of one placement, because several may not fit.
void add_steps(std::vector<RunWords>& runs, const Question& question, const std::vector<std::string>& warm,
               std::int64_t cache_bytes, const Room& room) {
  const auto add = [&](const char* method, const std::string& placement, const char* caches,
                       const RunWords& more) {
    auto words = joined({"--suite", "optimizer", "--direction", "step", "--optimizer", question.optimizer,
                         "--method", method, "--placement", placement, "--cache", caches},
                        shape_words(question, room));
    runs.push_back(joined(joined(std::move(words), more), budget(question, step_part)));
  };
  for (const auto& placement : warm) add("sparse_rows", placement, "warm,cold", {});
  if (cache_bytes > 0) add("row_cache", "mapped", "cold", cache_words(cache_bytes));
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
    if (choice.name == "cached") choice.cache_bytes = cache_for(question, room);
    choice.bytes = bytes_of(question, choice);
    const bool on_gpu = needs_cuda(choice.placement);
    if (on_gpu && !room.has_gpu()) choice.unmeasured = room.no_gpu;
    if (choice.compared_only && question.trains())
      choice.unmeasured = "a table that trains is measured in memory and through a cache";
    if (choice.placement != Placement::device || room.has_gpu() || question.device_memory)
      choice.misfit = misfit_of(choice.bytes, choice.bytes.disk - bytes_there(question, choice), room);
    if (choice.misfit.empty()) choice.misfit = too_small_cache(question, choice);
  }
  return choices;
}

std::int64_t measured_cache_bytes(const Question& question, const Choice& choice) {
  const auto part = static_cast<double>(measured_rows(question)) / static_cast<double>(question.rows);
  return static_cast<std::int64_t>(static_cast<double>(choice.cache_bytes) * part);
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
  // A new file has its own runs, because it is still written to the disk while the first rows are measured.
  auto in_memory = warm;
  std::erase(in_memory, std::string(to_string(Placement::mapped)));
  if (!in_memory.empty()) runs.push_back(gather_words(question, in_memory, false, room));
  if (contains(warm, "mapped")) runs.push_back(gather_words(question, {"mapped"}, false, room));
  auto cold_in_memory = cold;
  std::erase(cold_in_memory, std::string(to_string(Placement::mapped)));
  if (!cold_in_memory.empty()) runs.push_back(gather_words(question, cold_in_memory, true, room));
  const auto cache_bytes = cache_to_measure(question, choices);
  if (contains(cold, "mapped")) runs.push_back(gather_words(question, {"mapped"}, true, room, cache_bytes));
  if (question.trains()) add_steps(runs, question, in_memory, cache_bytes, room);
  return runs;
}

}  // namespace stbench::advise

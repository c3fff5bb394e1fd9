#include "speedtorch/rows/host_plan.h"

#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <mutex>

#include "speedtorch/error.h"
#include "speedtorch/rows/plan_text.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/system/small_file.h"
#include "speedtorch/system/system_files.h"
#include "speedtorch/system/unfinished.h"

namespace speedtorch {
namespace {

/// The machine and version of a stored plan: keys and values of its file.
PlanEntries machine_entries() {
  const SystemFiles files;
  const auto name = files.value("/proc/cpuinfo", "model name").value_or("unknown");  // Arm's kernel has none
  return {{"processor", name + ", " + processor_design(files).value_or("unknown design")},
          {"cores", std::to_string(::sysconf(_SC_NPROCESSORS_ONLN))},
          {"version", SPEEDTORCH_VERSION}};
}

bool is_of_machine(const std::string& key) {
  return key == "processor" || key == "cores" || key == "version";
}

/// The machine's values in a file's name: letters, digits and dots.
std::string file_name() {
  std::string name = "plan";
  for (const auto& [key, value] : machine_entries()) {
    name += '-';
    for (const char letter : value) {
      const bool kept = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '.';
      if (kept || name.back() != '-') name += kept ? letter : '-';
    }
  }
  return name;
}

PlanEntries read_entries(const std::string& path) {
  constexpr std::int64_t kLargest = 1 << 16;  // a plan has 3,000 bytes
  std::string text;
  try {
    text = read_small_file(path, kLargest);
  } catch (const FileError& error) {
    throw RowPlanError(std::string("the plan ") + error.what());
  }
  return parse_entries(text, "the plan '" + base_name(path) + "'");
}

Plan plan_in(PlanEntries entries, const std::string& path) {
  std::erase_if(entries, [](const auto& entry) { return is_of_machine(entry.first); });
  try {
    return plan_of(entries);
  } catch (const RowPlanError& error) {
    throw RowPlanError("the plan '" + base_name(path) + "': " + error.what());
  }
}

/// True if a file's plan was measured on such a machine by this version.
bool is_of_this_machine(const PlanEntries& entries) {
  PlanEntries found;
  for (const auto& entry : entries) {
    if (is_of_machine(entry.first)) found.push_back(entry);
  }
  return found == machine_entries();
}

/// The plan that tune() stored, or the defaults. A file that was changed does not count.
HostPlan stored_or_default() {
  const auto path = stored_plan_path();
  if (!path.empty() && ::access(path.c_str(), F_OK) == 0) {
    try {
      const auto entries = read_entries(path);
      if (is_of_this_machine(entries)) return {plan_in(entries, path), "stored"};
      return {kernels::default_plan(), "defaults (the stored plan is another machine's)"};
    } catch (const RowPlanError& error) {
      return {kernels::default_plan(), std::string("defaults (") + error.what() + ")"};
    }
  }
  return {kernels::default_plan(), "defaults"};
}

HostPlan first_plan() {
  const char* named = std::getenv("SPEEDTORCH_PLAN");
  if (named == nullptr || *named == '\0') return stored_or_default();
  if (std::string_view(named) == "fixed") return {kernels::default_plan(), "SPEEDTORCH_PLAN=fixed"};
  return {read_plan(named), std::string("SPEEDTORCH_PLAN=") + base_name(named)};
}

std::mutex origin_mutex;
std::string& origin() {
  static std::string text;
  return text;
}

}  // namespace

Plan first_host_plan() {
  const auto found = first_plan();
  const std::lock_guard lock(origin_mutex);
  if (origin().empty()) origin() = found.origin;
  return found.plan;
}

HostPlan host_plan() {
  const auto& plan = kernels::plan_in_use();
  const std::lock_guard lock(origin_mutex);
  return {plan, origin()};
}

void use_host_plan(const Plan& plan, const std::string& of) {
  const std::lock_guard lock(origin_mutex);
  kernels::use_plan(plan);
  origin() = of;
}

void use_default_plan() { use_host_plan(kernels::default_plan(), "defaults"); }

Plan read_plan(const std::string& path) { return plan_in(read_entries(path), path); }

void write_plan(const std::string& path, const Plan& plan) {
  replace_file(path, to_text(machine_entries()) + to_text(plan_entries(plan)));
}

std::string stored_plan_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/speedtorch/" + file_name();
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return std::string(home) + "/.cache/speedtorch/" + file_name();
}

}  // namespace speedtorch

/// A suite: a named set of cases, planned from the options, measured group by group.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmarks/suite/options.h"
#include "benchmarks/suite/preset.h"
#include "harness/benchmark_case.h"
#include "harness/case_id.h"
#include "harness/machine.h"
#include "reports/columns.h"
#include "reports/record.h"
#include "reports/tables/plain_table.h"
#include "reports/tables/table.h"

namespace stbench {

/// The services of the run to a group that is measured: time limits, samples, progress.
class Bench {
 public:
  Bench() = default;
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  virtual ~Bench() = default;

  /// Does a step that belongs to no single case under the time limit of a step.
  virtual void limited(const char* phase, const std::function<void()>& step) = 0;
  /// Does a step of one case under the time limit of a step.
  virtual void limited(const reports::Identity& id, const char* phase, const std::function<void()>& step) = 0;
  /// Samples runnable in rounds.
  virtual std::vector<reports::Record> sample(std::vector<harness::BenchmarkCase>& runnable) = 0;
  /// Shows what is done now, as a part of the group from 0 to 1.
  virtual void progress(std::string_view what, double fraction) = 0;
  /// True if the user wants the run to end.
  [[nodiscard]] virtual bool stop() const = 0;
};

/// Cases that are measured together.
class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  std::string title;                     ///< for the progress line
  std::vector<reports::Identity> cases;  ///< those that can run; others are in Plan::waived
  double seconds = 0;                    ///< the preset's time for it

  /// Measures the cases. An exception fails all of them.
  virtual std::vector<reports::Record> measure(Bench& bench) = 0;
};

/// Cases that are timed, in the same rounds.
class TimedGroup : public Group {
 public:
  /// Allocates and fills what the cases need. Untimed.
  virtual std::vector<harness::BenchmarkCase> prepare() = 0;
  /// True if conclude() has work to do.
  [[nodiscard]] virtual bool concludes() const { return false; }
  /// The work after the samples of one case, under its own time limit. An interrupted run does it, too, for
  /// cases that have samples.
  virtual void conclude(reports::Record& /*record*/) {}
  /// The checks that come last, and the release of what prepare() made. A record that fails here becomes
  /// `wrong`.
  virtual void close(std::vector<reports::Record>& records) = 0;

  std::vector<reports::Record> measure(Bench& bench) final;
};

struct Plan {
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<reports::Record> waived;
  std::vector<std::string> warnings;  ///< remarks on the plan for readers of the report
  /// Further parts of the report's environment.
  nlohmann::ordered_json environment = nlohmann::ordered_json::object();
  /// The last checks of what several groups share, after all of them.
  std::function<void()> last_check = [] {};
  /// Marks the records of all cases that used a corrupted table. Called after each group and after
  /// last_check.
  std::function<void(std::vector<reports::Record>&)> settle = [](std::vector<reports::Record>&) {};
};

/// A method as the program knows it: for `--method`, `--peers`, `list`, the help, and the column `role`.
struct MethodInfo {
  std::string name;
  std::string summary;  ///< one line
  harness::Role role = harness::Role::ours;
  bool peer = false;  ///< --peers takes it, and it runs only if it is named
};

/// All methods that a suite registered, as the program knows them.
template <class Method>
std::vector<MethodInfo> method_infos(const std::vector<Method>& methods) {
  std::vector<MethodInfo> infos;
  for (const auto& one : methods)
    infos.push_back({one.name, one.summary, one.role, one.asked_only && one.role == harness::Role::peer});
  return infos;
}

/// One axis as `list` shows it.
struct AxisInfo {
  using Names = std::vector<std::string>;
  AxisInfo(std::string name_, std::string values_, std::string standard_)
      : name(std::move(name_)), values(std::move(values_)), standard(std::move(standard_)) {}
  /// An axis with these values only: `--case` refuses others.
  AxisInfo(std::string name_, const Names& closed_, std::string standard_)
      : AxisInfo(std::move(name_), fmt::format("{}", fmt::join(closed_, " ")), std::move(standard_)) {
    closed = closed_;
  }

  std::string name;
  std::string values;
  std::string standard;  ///< what the standard preset takes
  Names closed;          ///< empty: any value, or what the suite itself checks
};

/// These axes with `method` and `peers` in place `at`.
std::vector<AxisInfo> with_methods(std::vector<AxisInfo> axes, std::ptrdiff_t at,
                                   const std::vector<MethodInfo>& methods,
                                   const std::string& standard = "all");

struct Suite {
  std::string name;
  std::string summary;
  bool leads = false;  ///< `list` begins with it
  harness::CaseKind kind = harness::CaseKind::moves;
  harness::AxisDefaults axes;  ///< further axes of the identity, with their defaults
  /// Its axes. It takes the options of their names, and refuses other options of suites.
  std::function<std::vector<AxisInfo>()> describe;
  std::function<std::vector<MethodInfo>()> methods;  ///< all, in the order of `list`
  std::vector<std::string> directions;
  std::vector<PresetInfo> presets = {"quick", "standard", "full"};
  bool times_cases = true;  ///< it takes --samples, --warmup and --verify
  /// A peer of another suite gets a waived row that says where it goes, instead of a refusal.
  bool waives_strange_peers = false;
  /// Advice for options that it does not take: the option's name, and a sentence.
  std::vector<std::pair<std::string, std::string>> instead;
  /// How `show` and a run show its records.
  reports::SuiteTables tables = {reports::plain_table};
  /// Further lines of `list`, indented.
  std::function<std::string()> more = [] { return std::string(); };
  /// It changes the process (its allocator), which would be measured with the suites after it.
  bool runs_last = false;
  /// The rank of this process if a launcher started it as one of several. Rank 0 measures and reports.
  std::function<std::optional<int>(const Options&)> launched_rank = [](const Options&) {
    return std::optional<int>();
  };
  /// The work of another rank instead of a run.
  std::function<void(const Options&)> follow = [](const Options&) {};
  /// @throws UsageError for what cannot be done as asked, before anything is allocated.
  std::function<Plan(const Options&, const harness::Machine&)> plan;
  /// Adds the records that follow from others (sums).
  std::function<void(std::vector<reports::Record>&, const Options&)> derive =
      [](std::vector<reports::Record>&, const Options&) {};
};

/// All suites, by name.
const std::vector<Suite>& suites();

/// A suite by its name. @throws std::out_of_range for a name that parse_command_line would refuse.
const Suite& suite_named(const std::string& name);

/// The tables of a suite; plain ones of a suite that this program does not know.
reports::SuiteTables tables_of(const std::string& suite);

/// True if the suite takes an option with the rule `of_suites`.
bool takes(const Suite& suite, std::string_view option);

/// Values of options, of all suites: each once.
std::vector<std::string> direction_names();
std::vector<std::string> preset_names();
std::vector<std::string> method_names(bool only_peers);

/// Writes the column `role` of the record, as its suite's method has it.
void add_role(reports::Record& record);

/// The case ID of a record. A record of a suite that this program does not know shows all its axes.
std::string case_id_of(const reports::Identity& id);

/// The case of `--case`, for the suite of this name. Its device is one that is here.
/// @throws UsageError naming the part of the case ID that the suite does not know
reports::Identity case_of(const std::string& case_id, const std::string& suite);

/// The value of a further axis of the case.
template <class T>
const T& axis(const reports::Identity& id, const char* name) {
  return std::get<T>(*reports::find(id.axes, name));
}

/// Registers a suite at start-up: one object per suite.
struct RegisterSuite {
  explicit RegisterSuite(Suite suite);
};

}  // namespace stbench

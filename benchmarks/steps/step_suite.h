/// The engine of the suites that time a step: an optimizer's, or a whole training step.
///
/// A suite plans its cells and makes the fixture of each: what its cases share. A method is a file with one
/// RegisterStepMethod object: its name, its role, and a Stepper, which has its own state, does a step, and
/// checks it against a reference that is computed another way. The engine does the planning, rounds, ratios,
/// `list`, `--case`, `--dry-run` and the reports. No method can leave the check out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/suite/suite.h"
#include "benchmarks/tables/table_file.h"
#include "harness/benchmark_case.h"
#include "harness/case_id.h"
#include "harness/machine.h"
#include "reports/record.h"
#include "reports/tables/step_tables.h"

namespace stbench {

/// The fixture of a cell: tables, index sets, gradients and the like, which its cases share.
class StepFixture {
 public:
  StepFixture() = default;
  StepFixture(const StepFixture&) = delete;
  StepFixture& operator=(const StepFixture&) = delete;
  virtual ~StepFixture() = default;

  /// Untimed, the last before each step: evicts caches.
  virtual void before_step() {}
  /// The check after all samples of the cell. A mismatch makes all of its records `wrong`.
  virtual harness::Check last_check() { return {}; }
  /// Columns that all records of the cell get before the samples.
  [[nodiscard]] virtual reports::Columns columns() const { return {}; }
};

/// A method in one cell.
class Stepper {
 public:
  Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;
  virtual ~Stepper() = default;

  virtual void prepare(int /*set*/) {}  ///< untimed, before each step
  virtual void step(int set) = 0;       ///< timed; the engine then waits for the GPU of the case
  /// True if the step has its own clock, such as that of another process: timed_step() then returns its
  /// seconds.
  [[nodiscard]] virtual bool self_timed() const { return false; }
  virtual double timed_step(int set) { return step(set), 0; }

  /// True if such steps follow each other in practice (harness/benchmark_case.h).
  [[nodiscard]] virtual bool in_series() const { return false; }

  virtual void remember(
      int set) = 0;  ///< untimed, before a checked step: keeps the state that the reference starts from
  virtual harness::Check check(int set) = 0;  ///< compares the step since then with the reference
  /// Bytes that each step must change, asked before and after every sample. Empty: there are none.
  virtual std::string fingerprint(int /*set*/) { return {}; }

  [[nodiscard]] virtual std::int64_t payload_bytes() const = 0;  ///< read and written by a step at the least
  [[nodiscard]] virtual std::int64_t index_bytes() const { return 0; }
  /// After all samples and checks: columns of its record.
  /// @throws WrongResult
  virtual void conclude(reports::Record& /*record*/) {}
};

/// Thrown by conclude(): the record becomes `wrong` with this reason.
struct WrongResult : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown by a method's `open` if it cannot run this case here. The case is waived with this reason.
struct CannotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct StepMethod {
  std::string name;
  std::string summary;  ///< one line for `list`
  harness::Role role;
  bool asked_only = false;  ///< only if --peers, --method or a preset names it
  bool keeps_rows = false;  ///< in memory of its own: it runs in the cells that have some (cache_bytes)
  std::vector<std::string> directions = {"step"};
  /// True for the cases that the method exists for; others are not planned.
  std::function<bool(const reports::Identity&)> supports = [](const reports::Identity&) { return true; };
  /// Why it cannot run a case that it supports; empty if it can. Such a case is waived.
  std::function<std::string(const reports::Identity&)> skip_reason = [](const reports::Identity&) {
    return std::string();
  };
  std::function<std::unique_ptr<Stepper>(const reports::Identity&, StepFixture&)> open;
};

/// `open` for a Stepper that is made of the case and its suite's fixture.
template <class Fixture, class OneStepper>
std::unique_ptr<Stepper> step_in(const reports::Identity& id, StepFixture& fixture) {
  return std::make_unique<OneStepper>(id, static_cast<Fixture&>(fixture));
}

/// A cell of the plan: its methods are compared with each other.
struct StepCell {
  reports::Identity id;                   ///< without a method
  int group = 0;                          ///< consecutive cells of one group share rounds
  double seconds = 0;                     ///< of sampling, for the whole group
  std::vector<std::string> methods = {};  ///< empty: all but those that must be asked for
};

/// For cross(): sets a further axis of the case.
inline auto further_axis(const char* name) {
  return [name](reports::Identity& id, const auto& value) {
    reports::set(id.axes, name, reports::Value(value));
  };
}
inline bool on_gpu(const reports::Identity& id) { return id.device != "cpu"; }

struct StepTerms {
  std::uint64_t seed = 1;
  std::shared_ptr<const TableFile> table = {};  ///< of --table; null without one
};

struct StepSuite {
  Suite suite;  ///< its methods and plan are added, and to its axes the device, cores, directions, placements
                ///< and methods
  /// Placements of the tables or parameters of a case, by its device.
  std::vector<std::string> host_placements = {"libtorch"}, gpu_placements = {"libtorch"};
  /// @throws UsageError
  std::function<std::vector<StepCell>(const Options&, const harness::Machine&)> cells;
  /// Checks how the parts of a case that --case names fit each other. @throws UsageError
  std::function<void(const reports::Identity&, const Options&)> check_case;
  /// Bytes that a cell needs of the host's memory, or of its GPU's. A cell that does not fit is refused
  /// before anything is allocated.
  std::function<std::int64_t(const reports::Identity&, bool gpu)> needs;
  std::function<std::unique_ptr<StepFixture>(const reports::Identity&, const StepTerms&)> fixture;
};

/// `fixture` for one kind of fixture.
template <class Fixture>
std::unique_ptr<StepFixture> fixture_of(const reports::Identity& id, const StepTerms& terms) {
  return std::make_unique<Fixture>(id, terms);
}

/// A cell of each case, each in its own group.
std::vector<StepCell> cells_of(const std::vector<reports::Identity>& cases, double seconds);

/// For cross(): sets the placement of a cell.
inline void placement_axis(StepCell& cell, const std::string& placement) { cell.id.placement = placement; }
/// For cross(): the placements of a cell that the options ask for, of those possible on its device. Without
/// --placement, the standard ones on the host and all on a GPU.
std::function<std::vector<std::string>(const StepCell&)> placements_asked_for(
    const Options& options, const std::vector<std::string>& standard, const std::vector<std::string>& host,
    const std::vector<std::string>& gpu);

/// The numbers of cores that the options ask for, by default all. @throws UsageError
std::vector<std::int64_t> cores_of(const Options& options, const harness::Machine& machine,
                                   bool one_and_all = false);

/// The devices that the options ask for, by default the processor. @throws UsageError
std::vector<std::string> step_devices(const Options& options);

/// rows × dim × factor; the largest number if that does not fit 63 bits.
std::int64_t bytes_or_most(const reports::Identity& id, std::int64_t factor);

struct RegisterStepSuite {
  explicit RegisterStepSuite(StepSuite suite);
};
struct RegisterStepMethod {
  RegisterStepMethod(const std::string& suite, StepMethod method);
};

}  // namespace stbench

/// The engine of the suites that time a step: an optimizer's, or a whole training step.
///
/// A suite says which cells there are and makes what the contestants of a cell share (the world). A
/// contestant is a file with one RegisterStepMethod object: its name, its role, and a Stepper, which has
/// state of its own, does a step, and checks it against a reference that is computed another way. Planning,
/// rounds, ratios, `list`, `--case`, `--dry-run` and the reports are the engine's; no contestant can leave
/// the check out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/suite/suite.h"
#include "harness/contestant.h"
#include "harness/machine.h"
#include "harness/sentence.h"
#include "reports/record.h"
#include "reports/tables/step_tables.h"

namespace stbench {

/// What the contestants of one cell share: tables, index sets, gradients.
class StepWorld {
 public:
  StepWorld() = default;
  StepWorld(const StepWorld&) = delete;
  StepWorld& operator=(const StepWorld&) = delete;
  virtual ~StepWorld() = default;

  /// The check that comes after all samples of the cell. What it finds makes all of its records `wrong`.
  virtual harness::Check last_check() { return {}; }
  /// What all contestants' records say of the world, before the samples.
  [[nodiscard]] virtual reports::Columns columns() const { return {}; }
};

/// A contestant in one cell.
class Stepper {
 public:
  Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;
  virtual ~Stepper() = default;

  virtual void prepare(int /*set*/) {}  ///< untimed, before each step
  virtual void step(int set) = 0;       ///< timed; the engine then waits for the GPU of the case
  /// True where step() has a clock of its own, such as that of another process: then seconds() does it.
  [[nodiscard]] virtual bool elsewhere() const { return false; }
  virtual double seconds(int set) { return step(set), 0; }

  virtual void remember(int set) = 0;  ///< untimed, before a checked step: what the reference begins from
  virtual harness::Check check(int set) = 0;  ///< the step since then against the reference
  /// Bytes of something that each step must change, asked before and after every sample; empty: nothing is.
  virtual std::string mark(int /*set*/) { return {}; }

  [[nodiscard]] virtual std::int64_t payload_bytes() const = 0;  ///< read and written by a step at the least
  [[nodiscard]] virtual std::int64_t index_bytes() const { return 0; }
  /// After all samples and checks: columns of its record.
  /// @throws WrongResult
  virtual void conclude(reports::Record& /*record*/) {}
};

/// What a contestant's own last look found: its record becomes `wrong`.
class WrongResult : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown by a method's `open`: it cannot run this case here, which is what the case shows. It is waived with
/// this reason.
class CannotRun : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StepMethod {
  std::string name;
  std::string summary;  ///< one line for `list`
  harness::Role role;
  bool asked_only = false;  ///< only where --peers, --method or a preset names it
  std::vector<std::string> directions = {"step"};
  /// Where it has a meaning at all; elsewhere it is not planned.
  std::function<bool(const reports::Identity&)> applies = [](const reports::Identity&) { return true; };
  /// Why it cannot run a case that it should; empty where it can. Such a case is waived.
  std::function<std::string(const reports::Identity&)> refuses = [](const reports::Identity&) {
    return std::string();
  };
  std::function<std::unique_ptr<Stepper>(const reports::Identity&, StepWorld&)> open;
};

/// `open` of a Stepper that is made of the case and its suite's world.
template <class World, class OneStepper>
std::unique_ptr<Stepper> step_in(const reports::Identity& id, StepWorld& world) {
  return std::make_unique<OneStepper>(id, static_cast<World&>(world));
}

/// Contestants of one comparison group, and of those that are measured in the same rounds.
struct StepCell {
  reports::Identity id;                   ///< without a method
  int group = 0;                          ///< cells of one number share rounds
  double seconds = 0;                     ///< of sampling, for the whole group
  std::vector<std::string> methods = {};  ///< all but those that must be asked for, where empty
};

struct StepTerms {
  std::uint64_t seed = 1;
};

struct StepSuite {
  [[nodiscard]] const std::vector<std::string>& placements_on(const std::string& device) const {
    return device == "cpu" ? host_placements : gpu_placements;
  }

  std::string name;
  std::string summary;
  harness::CaseKind kind = harness::CaseKind::moves;
  harness::AxisDefaults axes;
  std::vector<std::string> directions = {"step"};
  std::vector<PresetInfo> presets = {"quick", "standard", "full"};
  std::vector<std::pair<std::string, std::string>> instead;  ///< as Suite has it
  /// Where the tables or parameters of a case lie, by its device.
  std::vector<std::string> host_placements = {"libtorch"}, gpu_placements = {"libtorch"};
  reports::SuiteTables tables = {reports::step_tables};  ///< as Suite has it
  bool runs_last = false;                                ///< as Suite has it
  std::function<std::vector<AxisInfo>()> describe;  ///< directions, placements, methods and peers are added
  std::function<std::string()> more = [] { return std::string(); };  ///< further lines of `list`
  /// @throws UsageError
  std::function<std::vector<StepCell>(const Options&, const harness::Machine&)> cells;
  /// The cell of a case that --case named, after its parts were checked. @throws UsageError
  std::function<StepCell(const reports::Identity&, const Options&)> cell_of_case;
  /// Bytes that a cell needs of the host's memory, and of its GPU's. What does not fit is refused before
  /// anything is allocated.
  std::function<std::int64_t(const reports::Identity&)> needs = [](const reports::Identity&) { return 0; };
  std::function<std::int64_t(const reports::Identity&)> gpu_needs = [](const reports::Identity&) {
    return 0;
  };
  std::function<std::unique_ptr<StepWorld>(const reports::Identity&, const StepTerms&)> world;
  std::function<void(std::vector<reports::Record>&, const Options&)> derive =
      [](std::vector<reports::Record>&, const Options&) {};
};

/// The numbers of cores that the options ask for, all of them where they do not say. @throws UsageError
std::vector<std::int64_t> cores_of(const Options& options, const harness::Machine& machine,
                                   bool one_and_all = false);

/// The devices that the options ask for, the processor where they do not say. @throws UsageError
std::vector<std::string> step_devices(const Options& options);

/// rows × dim × factor; the largest number where they do not fit 63 bits.
std::int64_t bytes_or_most(const reports::Identity& id, std::int64_t factor);

struct RegisterStepSuite {
  explicit RegisterStepSuite(StepSuite suite);
};
struct RegisterStepMethod {
  RegisterStepMethod(const std::string& suite, StepMethod method);
};

}  // namespace stbench

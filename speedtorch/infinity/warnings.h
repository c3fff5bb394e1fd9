/// What is said to the user who forgot something, and how loudly.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "speedtorch/infinity/errors.h"

namespace speedtorch::infinity {

enum class Warning {
  set_twice,          ///< model, optimizer or criterion was there already; the second is ignored
  missing_backward,   ///< a step without gradients
  missing_step,       ///< gradients of a second batch without a step after the first
  missing_zero_grad,  ///< gradients are added to those of an earlier step
  model_changed,      ///< parameters replaced, moved, frozen, or its mode changed
  optimizer_changed,  ///< it has other parameters than the model, or than a batch ago
  criterion_changed,  ///< its reduction is another one than a batch ago
  coupled_criterion,  ///< losses of parts do not make up the loss of the whole, though it was said that they
                      ///< do
  batch_norm,         ///< statistics are those of each micro-batch
  smaller,            ///< memory ran out: the micro-batch is smaller from now on
  device,             ///< outputs, targets and parameters are on different devices
};

enum class WarningAction { ignore, once, always, raise };

/// Thrown where the plan says `raise`.
class WarningRaised : public InfinityBatchError {
 public:
  WarningRaised(Warning which, const std::string& text) : InfinityBatchError(text), which_(which) {}
  [[nodiscard]] Warning which() const { return which_; }

 private:
  Warning which_;
};

/// What is done about each warning.
struct WarningPlan {
  WarningAction otherwise = WarningAction::once;
  std::map<Warning, WarningAction> of;

  static WarningPlan silent() { return {WarningAction::ignore, {}}; }
  /// Whatever makes gradients wrong is said once; what only costs time is not. The default.
  static WarningPlan normal();
  /// All, every time.
  static WarningPlan beginner() { return {WarningAction::always, {}}; }
  /// Whatever makes gradients wrong ends the call.
  static WarningPlan strict();

  [[nodiscard]] WarningAction action(Warning which) const;
};

/// Says warnings as the plan wants. Not for several threads at once.
class Warnings {
 public:
  using Sink = std::function<void(Warning which, const std::string& text)>;

  /// @param sink gets what is said; empty: a line on standard error
  explicit Warnings(WarningPlan plan = WarningPlan::normal(), Sink sink = {});

  /// @throws WarningRaised where the plan says so
  void warn(Warning which, const std::string& text);
  /// How often it came, said or not.
  [[nodiscard]] std::int64_t count(Warning which) const;

 private:
  WarningPlan plan_;
  Sink sink_;
  std::map<Warning, std::int64_t> counts_;
};

}  // namespace speedtorch::infinity

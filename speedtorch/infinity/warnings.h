/// Warnings about misuse, and their configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "speedtorch/infinity/errors.h"

namespace speedtorch::infinity {

enum class Warning {
  set_twice,          ///< model, optimizer or criterion was set before; the second is ignored
  missing_backward,   ///< a step without gradients
  missing_step,       ///< gradients of a second batch without a step after the first
  missing_zero_grad,  ///< gradients are added to those of an earlier step
  model_changed,      ///< parameters replaced, moved, frozen, or its mode changed
  optimizer_changed,  ///< its parameters differ from the model's, or from the previous batch
  criterion_changed,  ///< its reduction differs from the previous batch
  coupled_criterion,  ///< the losses of parts do not add up to the loss of the whole, contrary to the
                      ///< declared reduction
  batch_norm,         ///< each micro-batch uses its own statistics
  smaller,            ///< memory ran out: micro-batches are smaller from now on
  device,             ///< outputs, targets and parameters are on different devices
};

enum class WarningAction { ignore, once, always, raise };

/// Thrown if the plan says `raise`.
class WarningRaised : public InfinityBatchError {
 public:
  WarningRaised(Warning which, const std::string& text) : InfinityBatchError(text), which_(which) {}
  [[nodiscard]] Warning which() const { return which_; }

 private:
  Warning which_;
};

/// The action for each warning.
struct WarningPlan {
  WarningAction otherwise = WarningAction::once;
  std::map<Warning, WarningAction> of;

  static WarningPlan silent() { return {WarningAction::ignore, {}}; }
  /// Reports once whatever makes gradients wrong; ignores what only costs time. The default.
  static WarningPlan normal();
  /// Reports everything, every time.
  static WarningPlan beginner() { return {WarningAction::always, {}}; }
  /// Throws for whatever makes gradients wrong.
  static WarningPlan strict();

  [[nodiscard]] WarningAction action(Warning which) const;
};

/// Reports warnings as the plan says. Not thread-safe.
class Warnings {
 public:
  using Sink = std::function<void(Warning which, const std::string& text)>;

  /// @param sink receives the reported warnings; empty: one line each on standard error
  explicit Warnings(WarningPlan plan = WarningPlan::normal(), Sink sink = {});

  /// @throws WarningRaised if the plan says `raise`
  void warn(Warning which, const std::string& text);
  /// How often the warning occurred, reported or not.
  [[nodiscard]] std::int64_t count(Warning which) const;

 private:
  WarningPlan plan_;
  Sink sink_;
  std::map<Warning, std::int64_t> counts_;
};

}  // namespace speedtorch::infinity

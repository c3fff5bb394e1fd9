/// Sees what a training loop of one's own leaves out, and what was changed behind its back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/infinity/criterion.h"
#include "speedtorch/infinity/model.h"
#include "speedtorch/infinity/optimizer.h"
#include "speedtorch/infinity/warnings.h"

namespace speedtorch::infinity {

/// Follows the order outputs, gradients, step, zero_grad, and compares model, optimizers and criterion with
/// what they were the batch before. Says what it finds through the warnings, whose plan decides what becomes
/// of it.
class EventMonitor {
 public:
  explicit EventMonitor(std::shared_ptr<Warnings> warnings) : warnings_(std::move(warnings)) {}

  /// Before each batch.
  void look_at(const Model& model, const std::vector<Optimizer>& optimizers, const Criterion* criterion);
  void batch_made();      ///< outputs without their gradients yet
  void gradients_made();  ///< by this library, for one batch
  /// @param there is any parameter's gradient defined?
  void stepping(bool there);
  void zeroing();
  void gradients_dropped();  ///< by this library, because their batch failed

 private:
  struct Seen {
    std::string name;
    const void* parameter = nullptr;
    std::string kind;  ///< shape, dtype, device, frozen or not
  };
  void look_at_model(const Model& model);
  void look_at_optimizers(const Model& model, const std::vector<Optimizer>& optimizers);

  std::shared_ptr<Warnings> warnings_;
  bool first_look_ = true;
  std::vector<Seen> parameters_;
  bool training_ = true;
  std::vector<std::string> options_;  ///< of each optimizer, in words
  std::vector<Reduction> reductions_;
  std::int64_t batches_with_gradients_ = 0;  ///< since the last zero_grad
  std::int64_t waiting_for_gradients_ = 0;   ///< batches since their outputs were made
  bool stepped_ = false;                     ///< since the last zero_grad
};

}  // namespace speedtorch::infinity

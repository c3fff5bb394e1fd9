/// Detects missing calls in a custom training loop, and unexpected changes of what it trains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/infinity/criterion.h"
#include "speedtorch/infinity/model.h"
#include "speedtorch/infinity/optimizer.h"
#include "speedtorch/infinity/warnings.h"

namespace speedtorch::infinity {

/// Checks the order outputs, gradients, step, zero_grad, and compares model, optimizers and criterion with
/// the batch before. Reports through Warnings.
class EventMonitor {
 public:
  explicit EventMonitor(std::shared_ptr<Warnings> warnings) : warnings_(std::move(warnings)) {}

  /// Call it before each batch.
  void inspect(const Model& model, const std::vector<Optimizer>& optimizers, const Criterion* criterion);
  void batch_made();      ///< outputs were made; their gradients are still to come
  void gradients_made();  ///< this library made the gradients of one batch
  /// @param there true if any parameter has a gradient
  void stepping(bool there);
  void zeroing();
  void gradients_dropped();  ///< this library dropped them because their batch failed

 private:
  /// A parameter as of the last batch. Described in words only if it changed, because words cost 3 us per
  /// parameter.
  struct Seen {
    explicit Seen(const at::Tensor& tensor);
    [[nodiscard]] bool same_kind(const at::Tensor& tensor) const;
    [[nodiscard]] std::string kind() const;

    const void* parameter;
    std::vector<std::int64_t> sizes;
    at::ScalarType dtype;
    at::Device device;
    bool trainable;
  };
  void inspect_model(const Model& model, const Tensors& parameters);
  [[nodiscard]] std::string change_to(const Model& model, const Tensors& now) const;
  void inspect_optimizers(const Model& model, const Tensors& parameters,
                          const std::vector<Optimizer>& optimizers);

  std::shared_ptr<Warnings> warnings_;
  bool first_inspection_ = true;
  std::vector<Seen> parameters_;
  bool training_ = true;
  std::vector<std::vector<std::size_t>> groups_;  ///< of each optimizer: the parameters per group
  std::vector<Reduction> reductions_;
  std::int64_t batches_with_gradients_ = 0;  ///< since the last zero_grad
  std::int64_t waiting_for_gradients_ = 0;   ///< batches whose outputs were made
  bool stepped_ = false;                     ///< since the last zero_grad
};

}  // namespace speedtorch::infinity

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
  void inspect(const Model& model, const std::vector<Optimizer>& optimizers, const Criterion* criterion);
  void batch_made();      ///< outputs without their gradients yet
  void gradients_made();  ///< by this library, for one batch
  /// @param there is any parameter's gradient defined?
  void stepping(bool there);
  void zeroing();
  void gradients_dropped();  ///< by this library, because their batch failed

 private:
  /// A parameter. Compared before each batch and put into words where it differs only: words cost 3 us a
  /// parameter.
  struct Seen {
    explicit Seen(const NamedTensor& named);
    [[nodiscard]] bool same_kind(const at::Tensor& tensor) const;
    [[nodiscard]] std::string kind() const;

    const void* parameter;
    std::vector<std::int64_t> sizes;
    at::ScalarType dtype;
    at::Device device;
    bool trainable;
  };
  void inspect_model(const std::vector<NamedTensor>& now, bool training);
  [[nodiscard]] std::string change_to(const std::vector<NamedTensor>& now) const;
  void inspect_optimizers(const std::vector<NamedTensor>& parameters,
                          const std::vector<Optimizer>& optimizers);

  std::shared_ptr<Warnings> warnings_;
  bool first_inspection_ = true;
  std::vector<Seen> parameters_;
  bool training_ = true;
  std::vector<std::string> options_;  ///< of each optimizer, in words
  std::vector<Reduction> reductions_;
  std::int64_t batches_with_gradients_ = 0;  ///< since the last zero_grad
  std::int64_t waiting_for_gradients_ = 0;   ///< batches since their outputs were made
  bool stepped_ = false;                     ///< since the last zero_grad
};

}  // namespace speedtorch::infinity

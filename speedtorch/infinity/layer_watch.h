/// Observes the operations of a forward pass, whatever the model consists of.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "speedtorch/infinity/model.h"

namespace speedtorch::infinity {

/// While it lives, it observes the outermost operations of this thread through LibTorch's record functions.
/// The time of an operation counts for the layer that owns one of its parameters. On a GPU this is the time
/// to queue it.
class LayerWatch {
 public:
  /// @param model null: no times
  explicit LayerWatch(const Model* model = nullptr);
  ~LayerWatch();
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;

  [[nodiscard]] bool saw_batch_norm() const;  ///< with any statistics
  /// True if a batch normalisation took its statistics from its samples.
  [[nodiscard]] bool saw_batch_statistics() const;
  /// True if an instance normalisation moved running statistics.
  [[nodiscard]] bool moved_instance_statistics() const;
  /// Seconds per layer ("0", "encoder.linear").
  [[nodiscard]] const std::map<std::string, double>& seconds() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

/// Returns "encoder.linear" for "encoder.linear.weight", and an empty string for "weight".
std::string layer_of(const std::string& parameter);

}  // namespace speedtorch::infinity

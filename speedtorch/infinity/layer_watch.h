/// Looks at the operations of a forward pass from outside, whatever the model is made of.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "speedtorch/infinity/model.h"

namespace speedtorch::infinity {

/// While it lives: the outermost operations of this thread, by LibTorch's record functions. The time of an
/// operation is that of the layer one of whose parameters it takes. On a GPU that is the time to queue it.
class LayerWatch {
 public:
  /// `names` costs half of `arguments` and sees that a batch normalisation ran, but not of what.
  enum class Sees { names, arguments };
  /// @param model null: nothing is timed
  explicit LayerWatch(const Model* model = nullptr, Sees sees = Sees::arguments);
  ~LayerWatch();
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;

  [[nodiscard]] bool saw_batch_norm() const;  ///< of whatever statistics
  /// True once a batch normalisation took its statistics from the samples themselves. Only a watch that sees
  /// arguments knows. @throws std::logic_error for another
  [[nodiscard]] bool saw_batch_statistics() const;
  /// Seconds by layer ("0", "encoder.linear").
  [[nodiscard]] const std::map<std::string, double>& seconds() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

/// "encoder.linear" of "encoder.linear.weight"; empty of "weight".
std::string layer_of(const std::string& parameter);

}  // namespace speedtorch::infinity

/// A model that is trained: a file in benchmarks/steps/nets/ with one RegisterNet object.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stbench {

struct Net {
  /// Begins evenly within 1 / sqrt(elements of a row) of `around` (a vector: within 0.1).
  struct Parameter {
    std::vector<std::int64_t> shape;
    double around = 0;
  };

  std::string name;
  std::string summary;               ///< one line for `list`
  std::vector<std::int64_t> sample;  ///< shape of one
  std::int64_t classes = 10;
  std::vector<Parameter> parameters;
  std::int64_t fits = 0;      ///< samples of the batch that fits, where --rows does not say
  std::int64_t activity = 0;  ///< about how many numbers a sample's graph keeps; for the need of memory
  /// Scores of each sample's classes, [samples, classes], in the dtype of both. Smooth: where a ReLU or a
  /// maximum falls the other way by a rounding, gradients of 128 samples differ by a thousandth, and whether
  /// they are right could not be told.
  std::function<at::Tensor(const std::vector<at::Tensor>& parameters, const at::Tensor& samples)> forward;

  [[nodiscard]] std::int64_t sample_elements() const;
  [[nodiscard]] std::int64_t parameter_elements() const;
};

/// All of them, by name.
const std::vector<Net>& nets();
std::vector<std::string> net_names();
/// @throws std::out_of_range for a name that the command line would refuse
const Net& net_named(const std::string& name);

struct RegisterNet {
  explicit RegisterNet(Net net);
};

}  // namespace stbench

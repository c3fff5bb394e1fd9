/// Models to train: each is a file in benchmarks/steps/nets/ with one RegisterNet object.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stbench {

struct Net {
  /// Starts uniformly within 1 / sqrt(elements of a row) of `around` (a vector: within 0.1).
  struct Parameter {
    std::vector<std::int64_t> shape;
    double around = 0;
  };

  std::string name;
  std::string summary;               ///< one line for `list`
  std::vector<std::int64_t> sample;  ///< shape of one
  std::int64_t classes = 10;
  std::vector<Parameter> parameters;
  std::int64_t fits = 0;      ///< samples of the batch that fits, without --rows
  std::int64_t activity = 0;  ///< about how many numbers the graph of a sample keeps, to estimate memory
  /// Scores of each sample's classes, [samples, classes], in the dtype of both. The function is smooth: with
  /// a ReLU or a maximum, one rounding changes the gradients of 128 samples by a thousandth, which would hide
  /// errors.
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

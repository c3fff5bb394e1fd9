/// A batch of samples, read one micro-batch at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace speedtorch::infinity {

using Tensors = std::vector<at::Tensor>;

/// Consecutive samples. Row i (the first dimension) of every tensor is sample i.
struct Samples {
  Tensors inputs;
  Tensors targets;
};

/// Samples that are in memory, or that are fetched when their micro-batch runs, so that a batch may exceed
/// host memory. Cheap to copy.
class Batch {
 public:
  /// Returns samples [first, first + count). Must return the same samples for the same numbers. May be called
  /// from another thread than the one that trains, but never by two threads at once.
  using Fetch = std::function<Samples(std::int64_t first, std::int64_t count)>;

  /// @throws InfinityBatchError if the tensors have no first dimension or differ in it
  Batch(at::Tensor inputs, at::Tensor targets);
  explicit Batch(Tensors inputs, Tensors targets = {});
  Batch(std::int64_t samples, Fetch fetch);

  [[nodiscard]] std::int64_t size() const { return samples_; }  ///< samples
  /// @throws InfinityBatchError if another number of samples was fetched
  [[nodiscard]] Samples samples(std::int64_t first, std::int64_t count) const;
  /// shape_of_a_sample() of the inputs. Fetches one sample if they are not in memory.
  [[nodiscard]] std::string shape() const;

 private:
  std::int64_t samples_;
  std::string shape_;  ///< empty if samples are fetched
  Fetch fetch_;
};

/// The shapes and dtypes of one sample: "float32[3, 8, 8]; int64[]". Samples with equal shapes need the same
/// memory.
std::string shape_of_a_sample(const Tensors& tensors);

/// Rows [first, first + count) of each tensor, without a copy. All rows are an alias of the tensor.
Tensors rows_of(const Tensors& tensors, std::int64_t first, std::int64_t count);

/// Concatenates consecutive parts of a batch: parts[k][i] are rows of tensor i.
Tensors concatenated(const std::vector<Tensors>& parts);

/// Each tensor on `device`, copied if necessary. Copies from pinned memory do not wait.
Tensors on_device(const Tensors& tensors, at::Device device);

}  // namespace speedtorch::infinity

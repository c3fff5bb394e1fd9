/// A batch of samples, of which a micro-batch at a time is looked at.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace speedtorch::infinity {

using Tensors = std::vector<at::Tensor>;

/// Consecutive samples: one in each row (the first dimension) of every tensor.
struct Samples {
  Tensors inputs;
  Tensors targets;
};

/// Samples that are there already, or that are fetched when their micro-batch comes, so that a batch may be
/// larger than the host's memory too. Cheap to copy.
class Batch {
 public:
  /// `count` samples from the `first` on. Called again with the same numbers it must give the same samples;
  /// may be called from another thread than the one that trains, though never by two at once.
  using Fetch = std::function<Samples(std::int64_t first, std::int64_t count)>;

  /// @throws InfinityBatchError where the tensors have no first dimension or differ in it
  Batch(at::Tensor inputs, at::Tensor targets);
  explicit Batch(Tensors inputs, Tensors targets = {});
  Batch(std::int64_t samples, Fetch fetch);

  [[nodiscard]] std::int64_t size() const { return samples_; }  ///< samples
  /// @throws InfinityBatchError where what was fetched has another number of samples
  [[nodiscard]] Samples samples(std::int64_t first, std::int64_t count) const;
  /// shape_of_a_sample() of its inputs; one sample is fetched where they are not there.
  [[nodiscard]] std::string shape() const;

 private:
  std::int64_t samples_;
  std::string shape_;  ///< empty: of samples that are fetched
  Fetch fetch_;
};

/// The shapes of one sample with their dtypes, as "float32[3, 8, 8]; int64[]": equal for samples that need
/// the same memory.
std::string shape_of_a_sample(const Tensors& tensors);

/// `count` rows of each tensor from the `first` on, without a copy; all of them are the tensor itself.
Tensors rows_of(const Tensors& tensors, std::int64_t first, std::int64_t count);

/// The tensors of consecutive parts of a batch as those of the whole: parts[k][i] are rows of tensor i.
Tensors concatenated(const std::vector<Tensors>& parts);

/// Each tensor on `device`; what is there already is not copied. Copies from pinned memory do not wait.
Tensors on_device(const Tensors& tensors, at::Device device);

}  // namespace speedtorch::infinity

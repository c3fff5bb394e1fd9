/// Sources of batches, epoch after epoch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "speedtorch/infinity/batch.h"

namespace speedtorch {
class MappedFile;
}

namespace speedtorch::infinity {

/// A handle: copies share the source.
class Data {
 public:
  using Next = std::function<std::optional<Batch>()>;  ///< the next batch of an epoch; empty after its last
  /// Called at the beginning of each epoch; the first is 0. Shuffle by this number, so that interrupted
  /// training resumes in the same order.
  using Start = std::function<Next(std::int64_t epoch)>;

  explicit Data(Start start) : start_(std::move(start)) {}
  /// The same batches in each epoch, in this order.
  Data(std::vector<Batch> batches);  // NOLINT(google-explicit-constructor): batches are data

  /// A LibTorch DataLoader (of torch::data::make_data_loader), or a range of batches, of examples that have
  /// `data` and `target`, or of vectors of such examples (a loader without Stack). The caller keeps it alive.
  template <class Loader>
  requires requires(Loader& loader) { ++loader.begin(); }
  explicit Data(Loader& loader) : start_([&loader](std::int64_t) { return walk(loader); }) {}
  template <class Loader>
  explicit Data(const std::unique_ptr<Loader>& loader) : Data(*loader) {}

  struct Order {
    std::int64_t batch = 0;  ///< samples; the last batch has the remainder
    bool shuffle = false;    ///< a new order in each epoch
    std::uint64_t seed = 0;  ///< of the order
    bool drop_last = false;  ///< omit a last batch that is smaller
  };
  /// The rows of tensors. @throws InfinityBatchError if their first dimensions differ, or if order.batch is
  /// below 1
  static Data of_tensors(Tensors inputs, Tensors targets, Order order);
  /// The rows of mapped files (speedtorch/files/mapped_file.h), read when their micro-batch runs, so that
  /// batches may exceed memory. The rows of `inputs` and `targets` are the samples.
  static Data of_files(std::vector<std::shared_ptr<MappedFile>> inputs,
                       std::vector<std::shared_ptr<MappedFile>> targets, Order order);

  [[nodiscard]] Next start(std::int64_t epoch) const { return start_(epoch); }

 private:
  template <class Loader>
  static Next walk(Loader& loader) {
    auto at = std::make_shared<decltype(loader.begin())>(loader.begin());
    return [at, end = loader.end(), first = true]() mutable -> std::optional<Batch> {
      if (!first) ++*at;
      first = false;
      if (*at == end) return std::nullopt;
      return as_batch(**at);
    };
  }

  template <class Example>
  static Batch as_batch(const Example& example) {
    if constexpr (std::is_convertible_v<Example, Batch>)
      return example;
    else if constexpr (requires { example.target; })
      return Batch(example.data, example.target);
    else if constexpr (requires { example.data.sizes(); })
      return Batch(Tensors{example.data});
    else if constexpr (requires { example.first.sizes(); })
      return Batch(example.first, example.second);
    else {
      Tensors data;
      Tensors target;
      for (const auto& each : example) {
        data.push_back(each.data);
        target.push_back(each.target);
      }
      return stacked(data, target);
    }
  }

  static Batch stacked(const Tensors& data, const Tensors& targets);

  Start start_;
};

}  // namespace speedtorch::infinity

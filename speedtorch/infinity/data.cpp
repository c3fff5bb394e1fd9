#include "speedtorch/infinity/data.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "speedtorch/files/mapped_file.h"
#include "speedtorch/infinity/errors.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/tensors.h"

namespace speedtorch::infinity {
namespace {

/// Rows `order[first]` to `order[first + count - 1]` of each tensor. Without an order, consecutive rows
/// without a copy.
Tensors picked(const Tensors& tensors, const at::Tensor& order, std::int64_t first, std::int64_t count) {
  if (!order.defined()) return rows_of(tensors, first, count);
  Tensors rows;
  const at::Tensor chosen = order.narrow(0, first, count);
  for (const at::Tensor& tensor : tensors) {
    std::vector<std::int64_t> sizes = tensor.sizes().vec();
    sizes[0] = count;
    at::Tensor out = at::empty(sizes, tensor.options());
    gather_rows(tensor, chosen.to(tensor.device()), out);
    rows.push_back(std::move(out));
  }
  return rows;
}

/// Uses a standard generator: the order is the same on every machine and does not consume LibTorch's draws.
at::Tensor shuffled(std::int64_t samples, std::uint64_t seed) {
  at::Tensor order = at::empty({samples}, at::kLong);
  auto* numbers = order.mutable_data_ptr<std::int64_t>();
  std::iota(numbers, numbers + samples, 0);
  std::mt19937_64 random(seed);
  for (std::int64_t i = samples - 1; i > 0; --i)
    std::swap(numbers[i], numbers[random() % static_cast<std::uint64_t>(i + 1)]);
  return order;
}

}  // namespace

Data::Data(std::vector<Batch> batches)
    : start_([batches = std::move(batches)](std::int64_t) -> Next {
        return [batches, next = std::size_t{0}]() mutable -> std::optional<Batch> {
          if (next == batches.size()) return std::nullopt;
          return batches[next++];
        };
      }) {}

Data Data::of_tensors(Tensors inputs, Tensors targets, Order order) {
  if (order.batch < 1)
    throw InfinityBatchError("a batch of " + std::to_string(order.batch) + " samples; take 1 or more");
  const std::int64_t samples = Batch(inputs, targets).size();  // checks the shapes
  for (Tensors* const tensors : {&inputs, &targets})           // once, not per batch
    for (at::Tensor& tensor : *tensors) tensor = resolved(tensor);
  return Data([=](std::int64_t epoch) -> Next {
    const auto seed = order.seed + static_cast<std::uint64_t>(epoch);
    const at::Tensor of_epoch = order.shuffle ? shuffled(samples, seed) : at::Tensor();
    return [=, first = std::int64_t{0}]() mutable -> std::optional<Batch> {
      const std::int64_t count = std::min(order.batch, samples - first);
      if (count == 0 || (order.drop_last && count < order.batch)) return std::nullopt;
      const std::int64_t begin = std::exchange(first, first + count);
      return Batch(count, [=](std::int64_t from, std::int64_t many) {
        return Samples{picked(inputs, of_epoch, begin + from, many),
                       picked(targets, of_epoch, begin + from, many)};
      });
    };
  });
}

Data Data::of_files(std::vector<std::shared_ptr<MappedFile>> inputs,
                    std::vector<std::shared_ptr<MappedFile>> targets, Order order) {
  const auto arrays = [](const std::vector<std::shared_ptr<MappedFile>>& files) {
    Tensors found;
    for (const auto& file : files) found.push_back(file->array());
    return found;
  };
  return of_tensors(arrays(inputs), arrays(targets), order);
}

Batch Data::stacked(const Tensors& data, const Tensors& targets) {
  return Batch(at::stack(data), at::stack(targets));
}

}  // namespace speedtorch::infinity

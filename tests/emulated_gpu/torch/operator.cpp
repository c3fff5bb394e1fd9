#include "tests/emulated_gpu/torch/operator.h"

#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAGuard.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/fault.h"
#include "tests/emulated_gpu/torch/deferred.h"
#include "tests/emulated_gpu/torch/random.h"
#include "tests/emulated_gpu/torch/shapes.h"

namespace emulated_gpu {
namespace {

at::Tensor allocate_like(const at::Tensor& shape, at::Device device) {
  if (!shape.defined()) return shape;
  TORCH_CHECK_NOT_IMPLEMENTED(shape.layout() == at::kStrided,
                              "the emulated GPU has no tensors of the layout ", shape.layout());
  // As LibTorch's operators allocate: not by an operator, which observers would see.
  return at::detail::empty_strided_cuda(shape.sizes(), shape.strides(), shape.scalar_type(), device);
}

void resize_output(const at::Tensor& output, const at::Tensor& shape) {
  if (!output.defined() || output.sizes() == shape.sizes()) return;
  output.resize_(shape.sizes());
  if (output.strides() != shape.strides()) output.as_strided_(shape.sizes(), shape.strides());
}

/// Gives the `out=` arguments the sizes that the operator found for them.
void resize_outputs(const Call& call, const Stack& shapes) {
  for (std::size_t a = 0; a < shapes.size(); ++a) {
    if (!call.is_written(a) || !call.arguments()[a].isTensor()) continue;
    resize_output(call.arguments()[a].toTensor(), shapes[a].toTensor());
  }
}

/// The new results of a call: their CUDA tensors for the caller, and where their values go.
struct Results {
  Stack values;                                    // as the operator returns them
  std::vector<std::vector<FrozenTensor>> tensors;  // of each result that is new
};

Results allocate_results(const Call& call, const Stack& shapes) {
  Results results;
  results.tensors.resize(shapes.size());
  for (std::size_t r = 0; r < shapes.size(); ++r) {
    if (const auto argument = call.returned_argument(r)) {
      results.values.push_back(call.arguments()[*argument]);
      continue;
    }
    results.values.push_back(with_tensors(shapes[r], [&](const at::Tensor& shape) {
      auto tensor = allocate_like(shape, call.device());
      results.tensors[r].emplace_back(tensor);
      return tensor;
    }));
  }
  return results;
}

void store_results(const std::vector<std::vector<FrozenTensor>>& tensors, const Stack& values) {
  for (std::size_t r = 0; r < tensors.size(); ++r) {
    if (tensors[r].empty()) continue;
    std::size_t next = 0;
    for_tensors(values[r], [&](const at::Tensor& value) { tensors[r][next++].store(value); });
  }
}

void run_later(const Call& call, const Shapes& shapes, std::optional<std::uint64_t> seed, Stack& stack) {
  resize_outputs(call, shapes.arguments);
  auto results = allocate_results(call, shapes.results);
  struct Deferred {
    FrozenCall call;
    std::vector<std::vector<FrozenTensor>> results;
  };
  const auto work = std::make_shared<Deferred>(Deferred{FrozenCall(call, seed), std::move(results.tensors)});
  defer(call.name(), [work] { store_results(work->results, work->call.run()); });
  for (auto& value : results.values) stack.push_back(std::move(value));
}

/// The arguments of a call that runs at once. It writes into copies, which reach the device in the order of
/// the stream, so that results still come late.
struct HostArguments {
  HostStorages storages;
  std::vector<std::pair<at::Tensor, at::Tensor>> written;  // the CUDA tensor, its copy

  at::Tensor operator()(const at::Tensor& tensor, bool is_written) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    auto host = FrozenTensor(tensor).on_host(storages);
    if (!is_written) return host;
    for (const auto& [known, copy] : written)
      if (known.is_same(tensor)) return copy;
    written.emplace_back(tensor, strided_copy(host));
    return written.back().second;
  }
};

void run_now(const Call& call, std::optional<std::uint64_t> seed, Stack& stack) {
  wait_for_stream();
  HostArguments arguments;
  Stack values;
  try {
    const KernelScope scope;
    values = call.stack_for(at::kCPU, seed, std::ref(arguments));
    call.run(c10::DispatchKey::CPU, values);
  } catch (const Fault& fault) {
    defer(call.name(), [fault] { throw fault; });
    wait_for_stream();
  }
  auto results = allocate_results(call, values);
  std::vector<std::pair<FrozenTensor, at::Tensor>> stores;
  for (const auto& [tensor, copy] : arguments.written) {
    resize_output(tensor, copy);
    stores.emplace_back(FrozenTensor(tensor), copy);
  }
  defer(call.name(), [stores, tensors = std::move(results.tensors), values] {
    for (const auto& [tensor, copy] : stores) tensor.store(copy);
    store_results(tensors, values);
  });
  for (auto& value : results.values) stack.push_back(std::move(value));
}

}  // namespace

void run_operator(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  const Call call(op, *stack);
  const c10::cuda::CUDAGuard guard(call.device());
  const auto seed = draw_seed(call);
  if (!needs_values(call))
    if (const auto shapes = shapes_of(call)) return run_later(call, *shapes, seed, *stack);
  run_now(call, seed, *stack);
}

}  // namespace emulated_gpu

// One call of an operator: its arguments, and the same arguments as other devices' kernels want them.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tests/emulated_gpu/torch/host_tensor.h"

namespace emulated_gpu {

using Stack = torch::jit::Stack;

/// Returns `value` with each tensor in it, alone or in a list, replaced by what `replace` returns.
c10::IValue with_tensors(const c10::IValue& value,
                         const std::function<at::Tensor(const at::Tensor&)>& replace);

/// Calls `visit` for each tensor in `value`.
void for_tensors(const c10::IValue& value, const std::function<void(const at::Tensor&)>& visit);

/// The arguments of one call of an operator on a CUDA device.
class Call {
 public:
  /// Takes the arguments of `op` off the stack.
  /// @throws c10::Error if they lie on several devices where LibTorch refuses that
  Call(const c10::OperatorHandle& op, Stack& stack);

  const c10::OperatorHandle& op() const { return op_; }
  const c10::FunctionSchema& schema() const { return op_.schema(); }
  const std::vector<c10::IValue>& arguments() const { return arguments_; }
  at::Device device() const { return device_; }
  std::string name() const;

  /// Returns true if the operator writes to this argument.
  bool is_written(std::size_t argument) const;
  /// Returns true if a tensor of the host is written.
  bool writes_to_host() const;
  /// Returns the argument that the operator returns as this result, or nothing if the result is new.
  std::optional<std::size_t> returned_argument(std::size_t result) const;
  /// Returns true if all results are tensors, lists of tensors or arguments.
  bool returns_tensors_only() const;

  /// Returns the arguments for kernels of another device: the device replaced, each tensor by
  /// `replace(tensor, whether it is written)`, and the generator by a CPU generator of this seed, or by none.
  Stack stack_for(at::DeviceType device, std::optional<std::uint64_t> seed,
                  const std::function<at::Tensor(const at::Tensor&, bool)>& replace) const;

  /// Runs the operator's kernel for a device; the results replace the arguments on the stack.
  void run(c10::DispatchKey device, Stack& stack) const;

 private:
  at::Device find_device() const;
  void refuse_mixed_devices() const;

  c10::OperatorHandle op_;
  std::vector<c10::IValue> arguments_;
  at::Device device_;
};

/// The arguments of a call without references to CUDA memory, to run the operator's CPU kernel later,
/// possibly several times.
class FrozenCall {
 public:
  FrozenCall(const Call& call, std::optional<std::uint64_t> seed);

  /// Runs the CPU kernel on the device's bytes and marks what it wrote. Returns the results.
  Stack run() const;

 private:
  c10::OperatorHandle op_;
  Stack template_;  // the arguments, with undefined tensors
  std::vector<FrozenTensor> tensors_;
  std::vector<std::size_t> written_;  // which of them the operator writes
  std::optional<std::uint64_t> seed_;
  std::optional<std::size_t> generator_;  // the argument
};

}  // namespace emulated_gpu

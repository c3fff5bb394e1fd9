#include "tests/emulated_gpu/torch/precision.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace emulated_gpu {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// Autocast asks CUDA's softmax to convert on the way. The CPU's wants one type.
void make_types_equal(const c10::FunctionSchema& schema, Stack& stack) {
  const auto& arguments = schema.arguments();
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    if (arguments[a].name() == "half_to_float" && stack[a].toBool()) {
      stack[0] = stack[0].toTensor().to(at::kFloat);
      stack[a] = false;
    }
    // Storing the result converts it.
    if (arguments[a].name() == "input_dtype") stack[a] = stack[0].toTensor().scalar_type();
  }
}

bool lacks_half(const c10::NotImplementedError& error) {
  const std::string what = error.what_without_backtrace();
  return what.find("'Half'") != std::string::npos || what.find("'BFloat16'") != std::string::npos;
}

/// The half-precision arguments of a call in single precision.
class Widened {
 public:
  at::Tensor operator()(const at::Tensor& tensor) {
    if (!tensor.defined() || !at::isReducedFloatingType(tensor.scalar_type())) return tensor;
    type_ = tensor.scalar_type();
    for (const auto& [known, wide] : tensors_)
      if (known.is_same(tensor)) return wide;
    tensors_.emplace_back(tensor, tensor.to(at::kFloat));
    return tensors_.back().second;
  }
  /// Brings what the kernel wrote back to the argument.
  void narrow(const at::Tensor& tensor) const {
    for (const auto& [known, wide] : tensors_)
      if (known.is_same(tensor)) known.copy_(wide);
  }
  at::Tensor narrow_result(const at::Tensor& tensor) const {
    return tensor.defined() && type_ && tensor.scalar_type() == at::kFloat ? tensor.to(*type_) : tensor;
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;
  std::optional<at::ScalarType> type_;
};

void run_widened(const c10::OperatorHandle& op, const Stack& arguments, Stack& stack) {
  Widened widened;
  stack.clear();
  for (const auto& argument : arguments) stack.push_back(with_tensors(argument, std::ref(widened)));
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  for (std::size_t a = 0; a < arguments.size(); ++a)
    if (is_written(op.schema().arguments()[a]))
      for_tensors(arguments[a], [&](const at::Tensor& tensor) { widened.narrow(tensor); });
  for (auto& result : stack)
    result = with_tensors(result, [&](const at::Tensor& tensor) { return widened.narrow_result(tensor); });
}

}  // namespace

void run_cpu_kernel(const c10::OperatorHandle& op, Stack& stack) {
  make_types_equal(op.schema(), stack);
  const Stack arguments = stack;
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    return;
  } catch (const c10::NotImplementedError& error) {
    if (!lacks_half(error)) throw;
  }
  run_widened(op, arguments, stack);
}

}  // namespace emulated_gpu

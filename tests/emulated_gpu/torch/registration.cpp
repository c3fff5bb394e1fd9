// Puts the emulated operators in the place of LibTorch's CUDA kernels when the library is loaded.
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/emulated_gpu/torch/composites.h"
#include "tests/emulated_gpu/torch/copy.h"
#include "tests/emulated_gpu/torch/operator.h"
#include "tests/emulated_gpu/torch/sparse.h"

namespace emulated_gpu {
namespace {

/// LibTorch's own kernels that stay: they allocate, or copy by the CUDA runtime, and launch nothing.
const std::set<std::string_view> kKept{
    "aten::empty",       "aten::empty_strided",       "aten::resize_",
    "aten::set_",        "aten::record_stream",       "aten::is_pinned",
    "aten::_pin_memory", "aten::pin_memory",          "aten::is_set_to",
    "aten::set_data",    "aten::_local_scalar_dense", "aten::_efficientzerotensor",
    "aten::_to_copy",
};

/// LibTorch 2.11 has 1,318 operators with a CUDA kernel.
constexpr std::size_t kFewestOperators = 1000;

class Silence : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

bool returns_view(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns())
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  return false;
}

void refuse_operator(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(), " has no CPU kernel, and the emulated GPU has none");
}

/// Of compressed sparse tensors (CSR and the like), whose kernels are cuSPARSE's.
void refuse_compressed(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(),
                              ": the emulated GPU has no compressed sparse tensors");
}

class Registration {
 public:
  Registration() {
    Silence silence;  // each registration would warn that it replaces a kernel
    auto* const before = c10::WarningUtils::get_warning_handler();
    c10::WarningUtils::set_warning_handler(&silence);
    replace_kernels();
    replace_sparse_kernels();
    put({"aten::copy_", ""}, c10::KernelFunction::makeFromUnboxedRuntimeFunction(&copy));
    for (auto& [name, kernel] : composites()) put(name, std::move(kernel));
    c10::WarningUtils::set_warning_handler(before);
    use_plain_attention();
  }

 private:
  void replace_kernels() {
    std::size_t replaced = 0, refused = 0;
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
      const auto op = c10::Dispatcher::singleton().findSchema(name);
      if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CUDA) || !name.name.starts_with("aten::"))
        continue;
      if (returns_view(op->schema()) || kKept.count(name.name) != 0) continue;
      if (op->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) {
        put(name, c10::KernelFunction::makeFromBoxedFunction<&run_operator>());
        ++replaced;
      } else {
        put(name, c10::KernelFunction::makeFromBoxedFunction<&refuse_operator>());
        ++refused;
      }
    }
    if (std::getenv("EMULATED_GPU_STATISTICS") != nullptr)
      std::fprintf(stderr, "emulated GPU: %zu CUDA operators of LibTorch run on the CPU, %zu are refused\n",
                   replaced, refused);
    if (replaced < kFewestOperators) {
      std::fprintf(
          stderr,
          "emulated GPU: LibTorch has registered only %zu CUDA operators: its CUDA half was still being "
          "loaded\n",
          replaced);
      std::abort();
    }
  }

  /// The fused attentions have no CPU kernels, and LibTorch chooses among them without asking the dispatcher.
  static void use_plain_attention() {
    auto& context = at::globalContext();
    context.setSDPUseFlash(false);
    context.setSDPUseMemEfficient(false);
    context.setSDPUseCuDNN(false);
  }

  void replace_sparse_kernels() {
    using c10::DispatchKey;
    using c10::KernelFunction;
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
      const auto op = c10::Dispatcher::singleton().findSchema(name);
      if (!op || returns_view(op->schema()) || keeps_sparse_kernel(*op)) continue;
      if (op->hasKernelForDispatchKey(DispatchKey::SparseCUDA) &&
          op->hasKernelForDispatchKey(DispatchKey::SparseCPU))
        put(name, KernelFunction::makeFromBoxedFunction<&run_sparse_operator>(), DispatchKey::SparseCUDA);
      if (op->hasKernelForDispatchKey(DispatchKey::SparseCsrCUDA))
        put(name, KernelFunction::makeFromBoxedFunction<&refuse_compressed>(), DispatchKey::SparseCsrCUDA);
    }
  }

  void put(const c10::OperatorName& name, c10::KernelFunction kernel,
           c10::DispatchKey key = c10::DispatchKey::CUDA) {
    handles_.push_back(c10::Dispatcher::singleton().registerImpl(name, key, std::move(kernel), std::nullopt,
                                                                 nullptr, "emulated GPU"));
  }

  std::vector<c10::RegistrationHandleRAII> handles_;
};

// Never destroyed: LibTorch's operators may run until the process ends.
[[maybe_unused]] const auto* const registration = new Registration;

}  // namespace
}  // namespace emulated_gpu

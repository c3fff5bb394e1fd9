#include "speedtorch/infinity/normalisation_dispatch.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/instance_norm.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace speedtorch::infinity {
namespace {

constexpr auto kKey = c10::DispatchKey::AutocastPrivateUse1;
using Maybe = std::optional<at::Tensor>;
using NotAgain = c10::impl::ExcludeDispatchKeyGuard;

/// The innermost one of this thread.
thread_local NormalisationDispatch* at_work = nullptr;

at::Tensor batch_norm(const at::Tensor& input, const Maybe& weight, const Maybe& bias, const Maybe& mean,
                      const Maybe& variance, bool training, double momentum, double eps, bool cudnn) {
  const NotAgain guard(kKey);
  if (training && at_work) {
    const auto given = [](const Maybe& tensor) { return tensor.value_or(at::Tensor()); };
    at_work->begins();
    const at::Tensor made =
        at_work->batch_norm(input, given(weight), given(bias), given(mean), given(variance), momentum, eps);
    if (made.defined()) return made;
  }
  return at::batch_norm(input, weight, bias, mean, variance, training, momentum, eps, cudnn);
}

/// Instance normalisation calls batch_norm with each sample as a batch, so its statistics are per sample.
at::Tensor instance_norm(const at::Tensor& input, const Maybe& weight, const Maybe& bias, const Maybe& mean,
                         const Maybe& variance, bool use_input_stats, double momentum, double eps,
                         bool cudnn) {
  const NotAgain guard(kKey);
  if (at_work) at_work->begins();
  return at::instance_norm(input, weight, bias, mean, variance, use_input_stats, momentum, eps, cudnn);
}

/// An operation beneath at::batch_norm that a model called itself.
void inner_batch_norm(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const NotAgain guard(kKey);
  if (at_work) at_work->begins();
  operation.callBoxed(stack);
}

/// Registers the kernels once for all threads.
void register_once() {
  static torch::Library others(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  static torch::Library ours(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  [[maybe_unused]] static const bool registered = [] {
    try {
      others.fallback(torch::CppFunction::makeFallthrough());
    } catch (const c10::Error&) {  // an extension for another device has registered its own
    }
    ours.impl("batch_norm", &batch_norm);
    ours.impl("instance_norm", &instance_norm);
    std::vector<std::string> inner{"native_batch_norm.out", "cudnn_batch_norm.out"};
    for (const std::string_view operation : kBatchNormOperations)
      if (operation != "batch_norm") inner.emplace_back(operation);
    for (const std::string& operation : inner)
      ours.impl(operation.c_str(), torch::CppFunction::makeFromBoxedFunction<&inner_batch_norm>());
    return true;
  }();
}

}  // namespace

NormalisationDispatch::NormalisationDispatch()
    : outer_((register_once(), std::exchange(at_work, this))),
      was_excluded_(c10::impl::tls_is_dispatch_key_excluded(kKey)),
      was_included_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  c10::impl::tls_set_dispatch_key_excluded(kKey, false);
  c10::impl::tls_set_dispatch_key_included(kKey, true);
}

NormalisationDispatch::~NormalisationDispatch() {
  c10::impl::tls_set_dispatch_key_included(kKey, was_included_);
  c10::impl::tls_set_dispatch_key_excluded(kKey, was_excluded_);
  at_work = outer_;
}

}  // namespace speedtorch::infinity

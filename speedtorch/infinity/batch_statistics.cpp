#include "speedtorch/infinity/batch_statistics.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/var_mean.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "speedtorch/infinity/errors.h"
#include "speedtorch/infinity/normalisation_dispatch.h"

namespace speedtorch::infinity {
namespace {

using Maybe = std::optional<at::Tensor>;

Maybe maybe(const at::Tensor& tensor) { return tensor.defined() ? Maybe(tensor) : std::nullopt; }

/// Ends a pass that has measured. Not a std::exception, so that no handler takes it for an error.
struct MeasurementDone {};

/// Reshapes one number per channel to broadcast with `like` [samples, channels, ...].
at::Tensor by_channel(const at::Tensor& numbers, const at::Tensor& like) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(like.dim()), 1);
  sizes[1] = numbers.numel();
  return numbers.view(sizes);
}

/// Batch normalisation by given statistics. Differentiable with respect to them too. If their adjoints are
/// known, the input's gradient includes the statistics' own dependence on the input.
class Normalise final : public torch::autograd::Function<Normalise> {
 public:
  using Context = torch::autograd::AutogradContext;
  using List = torch::autograd::variable_list;

  /// Tensors that may be undefined are optionals; an empty optional is no autograd input.
  static at::Tensor forward(Context* context, const at::Tensor& input, const at::Tensor& mean,
                            const at::Tensor& variance, const Maybe& weight, const Maybe& bias,
                            const Maybe& of_mean, const Maybe& of_variance, double eps, std::int64_t count) {
    const auto given = [](const Maybe& tensor) { return tensor.value_or(at::Tensor()); };
    context->save_for_backward({input, mean, variance, given(weight), given(of_mean), given(of_variance)});
    context->saved_data["eps"] = eps;
    context->saved_data["count"] = count;
    context->saved_data["has_bias"] = bias.has_value();
    return at::batch_norm(input, weight, bias, mean, variance, false, 0, eps, true);
  }

  static List backward(Context* context, const List& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& mean = saved[1];
    const at::Tensor& weight = saved[3];
    const double eps = context->saved_data["eps"].toDouble();
    auto [of_input, of_weight, of_bias] =
        at::native_batch_norm_backward(gradients[0], input, weight, mean, saved[2], {}, {}, false, eps,
                                       std::array<bool, 3>{true, true, true});
    List all(9);
    if (context->needs_input_grad(1)) {
      const at::Tensor spread = saved[2] + eps;
      const auto weighted = [&weight](at::Tensor sum) { return weight.defined() ? sum.mul_(weight) : sum; };
      all[1] = weighted(-of_bias).div_(spread.sqrt());
      all[2] = weighted(-0.5 * of_weight).div_(spread);
    }
    if (context->needs_input_grad(0)) {
      if (saved[4].defined()) {
        const auto values = static_cast<double>(context->saved_data["count"].toInt());
        at::Tensor more = (input - by_channel(mean, input)).mul_(by_channel(saved[5] * (2 / values), input));
        of_input = of_input + more.add_(by_channel(saved[4] / values, input));
      }
      all[0] = of_input;
    }
    if (weight.defined()) all[3] = of_weight;
    if (context->saved_data["has_bias"].toBool()) all[4] = of_bias;
    return all;
  }
};

/// The dtype of the running statistics or, without those, what LibTorch uses: float32 for half precision.
at::ScalarType dtype_of_statistics(const at::Tensor& input, const at::Tensor& running) {
  if (running.defined()) return running.scalar_type();
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

/// Hands the batch normalisations of a run to its statistics.
class BatchStatistics::Dispatch final : public NormalisationDispatch {
 public:
  explicit Dispatch(BatchStatistics& statistics) : statistics_(statistics) {}
  at::Tensor batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                        const at::Tensor& running_mean, const at::Tensor& running_variance, double momentum,
                        double eps) override {
    return statistics_.normalise(input, weight, bias, running_mean, running_variance, momentum, eps);
  }

 private:
  BatchStatistics& statistics_;
};

Tensors BatchStatistics::run(const Model& model, const Tensors& inputs, Pass pass) {
  const Dispatch dispatch(*this);
  pass_ = pass;
  next_call_ = 0;
  measured_ = {};
  try {
    Tensors outputs = model(inputs);
    if (next_call_ != calls_.size() || (pass == Pass::measure && known_ < calls_.size()))
      throw InfinityBatchError("the model normalised " + std::to_string(next_call_) +
                               " times and in other passes " + std::to_string(calls_.size()) +
                               ": BatchNorm::exact needs the same in each micro-batch");
    complete_ = true;
    return outputs;
  } catch (const MeasurementDone&) {
    return {};
  }
}

/// Replaces at::batch_norm in training mode.
at::Tensor BatchStatistics::normalise(const at::Tensor& input, const at::Tensor& weight,
                                      const at::Tensor& bias, const at::Tensor& running_mean,
                                      const at::Tensor& running_variance, double momentum, double eps) {
  if (next_call_ == calls_.size() && !complete_)
    calls_.push_back({.running_mean = running_mean,
                      .running_variance = running_variance,
                      .momentum = momentum,
                      .dtype = dtype_of_statistics(input, running_mean)});
  const std::size_t call = next_call_++;
  if (call >= calls_.size())
    throw InfinityBatchError("the model normalises more often than in the first micro-batch (" +
                             std::to_string(calls_.size()) +
                             " times): BatchNorm::exact needs the same in each");
  const Call& its = calls_[call];
  if (call < known_)
    return Normalise::apply(input, its.mean, its.variance, maybe(weight), maybe(bias),
                            maybe(its.adjoint_of_mean), maybe(its.adjoint_of_variance), eps,
                            its.moments.count);
  if (call == known_) measured_ = moments_of(input);
  if (pass_ == Pass::measure) throw MeasurementDone();
  return at::batch_norm(input, weight, bias, {}, {}, true, 0, eps, true);
}

BatchStatistics::Moments BatchStatistics::moments_of(const at::Tensor& input) {
  std::vector<std::int64_t> all_but_channels(static_cast<std::size_t>(input.dim()) - 1, 0);
  std::iota(all_but_channels.begin() + 1, all_but_channels.end(), 2);
  Moments found{.count = input.numel() / input.size(1)};
  const auto [variance, mean] = at::var_mean(input.detach(), all_but_channels, 0);
  found.mean = mean.to(at::kDouble);
  found.squares = variance.to(at::kDouble) * found.count;
  return found;
}

/// Combines moments by the distance of both means, without cancellation (Chan, Golub and LeVeque).
BatchStatistics::Moments BatchStatistics::combined(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  Moments both{.count = a.count + b.count};
  const auto of_a = static_cast<double>(a.count);
  const auto of_b = static_cast<double>(b.count);
  const at::Tensor distance = b.mean - a.mean;
  both.mean = a.mean + distance * (of_b / (of_a + of_b));
  both.squares = a.squares + b.squares + distance.square() * (of_a * of_b / (of_a + of_b));
  return both;
}

void BatchStatistics::add_measured() {
  if (calls_.empty()) return;
  Moments& moments = calls_.at(known_).moments;
  moments = combined(moments, measured_);
}

void BatchStatistics::end_measuring() {
  Call& call = calls_.at(known_);
  const auto count = static_cast<double>(call.moments.count);
  call.mean = call.moments.mean.to(call.dtype);
  call.variance = (call.moments.squares / count).to(call.dtype);
  ++known_;
}

void BatchStatistics::move_running(const Model& model, const Undo& before, std::int64_t micro_batches) const {
  const at::NoGradGuard no_grad;
  std::vector<std::pair<at::Tensor, at::Tensor>> moved;  // each buffer with its new value
  const auto now = [&](const at::Tensor& buffer) {
    for (auto at = moved.rbegin(); at != moved.rend(); ++at)
      if (at->first.is_same(buffer)) return at->second;
    return buffer;
  };
  const auto move = [&](const at::Tensor& running, const at::Tensor& batchs, double momentum) {
    if (running.defined()) moved.emplace_back(running, now(running) * (1 - momentum) + batchs * momentum);
  };
  for (const Call& call : calls_) {
    const auto count = static_cast<double>(call.moments.count);
    move(call.running_mean, call.moments.mean.to(call.dtype), call.momentum);
    move(call.running_variance, (call.moments.squares / (count - 1)).to(call.dtype), call.momentum);
  }
  const auto batches = static_cast<double>(micro_batches);
  for (const at::Tensor& buffer : model.buffers()) {
    const at::Tensor was = before.before(buffer);
    if (buffer.numel() != 1 || !was.defined()) continue;
    const double counted = (buffer - was).item().toDouble();
    if (counted > 0 && std::fmod(counted, batches) == 0) moved.emplace_back(buffer, was + counted / batches);
  }
  for (auto& [buffer, value] : moved) buffer.copy_(value);
}

Tensors BatchStatistics::begin_adjoint(std::size_t call) {
  Call& its = calls_.at(call);
  its.mean = its.mean.detach().requires_grad_();
  its.variance = its.variance.detach().requires_grad_();
  return {its.mean, its.variance};
}

void BatchStatistics::set_adjoint(std::size_t call, Tensors adjoint) {
  Call& its = calls_.at(call);
  its.mean = its.mean.detach();
  its.variance = its.variance.detach();
  its.adjoint_of_mean = std::move(adjoint.at(0));
  its.adjoint_of_variance = std::move(adjoint.at(1));
}

void BatchStatistics::forget_adjoints() {
  for (std::size_t call = 0; call < calls_.size(); ++call) set_adjoint(call, Tensors(2));
}

}  // namespace speedtorch::infinity

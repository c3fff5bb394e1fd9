#include "tests/emulated_gpu/torch/composites.h"

#include <ATen/ATen.h>

#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "tests/emulated_gpu/torch/operator.h"

namespace emulated_gpu {
namespace {

using Optional = std::optional<at::Tensor>;

at::Tensor or_undefined(const Optional& tensor) { return tensor ? *tensor : at::Tensor(); }

/// The CPU kernel draws from the host's default generator, so the mask is drawn by an operator that takes
/// one.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  if (!train.value_or(true)) return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  if (p == 1) return {at::zeros_like(input), at::zeros_like(input, input.options().dtype(at::kBool))};
  auto mask = at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(1 - p);
  return {input * mask * (1 / (1 - p)), mask};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> cudnn_batch_norm(
    const at::Tensor& input, const at::Tensor& weight, const Optional& bias, const Optional& running_mean,
    const Optional& running_var, bool training, double momentum, double epsilon) {
  auto [output, mean, deviation] =
      at::native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, epsilon);
  return {output, mean, deviation, at::empty({0}, input.options().dtype(at::kByte))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cudnn_batch_norm_backward(
    const at::Tensor& input, const at::Tensor& gradient, const at::Tensor& weight,
    const Optional& running_mean, const Optional& running_var, const Optional& mean,
    const Optional& deviation, double epsilon, const at::Tensor& /*reserve*/) {
  return at::native_batch_norm_backward(gradient, input, weight, running_mean, running_var,
                                        or_undefined(mean), or_undefined(deviation), /*train=*/true, epsilon,
                                        {true, true, true});
}

bool refuse_cudnn(const at::Tensor&) { return false; }

bool refuse_ctc_loss(const at::Tensor&, const at::Tensor&, at::IntArrayRef, at::IntArrayRef, std::int64_t) {
  return false;
}

bool refuse_ctc_loss_of_tensors(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                std::int64_t) {
  return false;
}

/// The gates of an LSTM cell, in LibTorch's order: input, forget, cell, output.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates,
                                                         const at::Tensor& hidden_gates,
                                                         const at::Tensor& cell, const Optional& input_bias,
                                                         const Optional& hidden_bias) {
  auto gates = input_gates + hidden_gates;
  if (input_bias && input_bias->defined()) gates = gates + *input_bias + *hidden_bias;
  const auto parts = gates.chunk(4, 1);
  const auto in = parts[0].sigmoid(), forget = parts[1].sigmoid(), candidate = parts[2].tanh(),
             out = parts[3].sigmoid();
  auto next = forget * cell + in * candidate;
  return {out * next.tanh(), next, at::cat({in, forget, candidate, out}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const Optional& hidden_gradient, const Optional& cell_gradient, const at::Tensor& cell,
    const at::Tensor& next, const at::Tensor& workspace, bool has_bias) {
  const auto parts = workspace.chunk(4, 1);
  const auto &in = parts[0], &forget = parts[1], &candidate = parts[2], &out = parts[3];
  const auto bent = next.tanh();
  auto through = cell_gradient && cell_gradient->defined() ? *cell_gradient : at::zeros_like(next);
  auto out_gradient = at::zeros_like(out);
  if (hidden_gradient && hidden_gradient->defined()) {
    through = through + *hidden_gradient * out * (1 - bent * bent);
    out_gradient = *hidden_gradient * bent * out * (1 - out);
  }
  auto gates = at::cat({through * candidate * in * (1 - in), through * cell * forget * (1 - forget),
                        through * in * (1 - candidate * candidate), out_gradient},
                       1);
  return {gates, through * forget, has_bias ? gates.sum(0) : at::Tensor()};
}

/// The gates of a GRU cell, in LibTorch's order: reset, update, new. The workspace holds what the backward
/// pass needs: the three, the hidden state before, and the hidden part of the new gate.
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                            const at::Tensor& before, const Optional& input_bias,
                                            const Optional& hidden_bias) {
  const bool has_bias = input_bias && input_bias->defined();
  const auto in = (has_bias ? input_gates + *input_bias : input_gates).chunk(3, 1);
  const auto hidden = (has_bias ? hidden_gates + *hidden_bias : hidden_gates).chunk(3, 1);
  const auto reset = (in[0] + hidden[0]).sigmoid(), update = (in[1] + hidden[1]).sigmoid();
  const auto fresh = (in[2] + reset * hidden[2]).tanh();
  return {fresh + update * (before - fresh), at::cat({reset, update, fresh, before, hidden[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& gradient, const at::Tensor& workspace, bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const auto &reset = parts[0], &update = parts[1], &fresh = parts[2], &before = parts[3], &hidden = parts[4];
  const auto of_update = gradient * (before - fresh) * (1 - update) * update;
  const auto of_fresh = gradient * (1 - update) * (1 - fresh * fresh);
  const auto of_reset = of_fresh * hidden * (1 - reset) * reset;
  auto in = at::cat({of_reset, of_update, of_fresh}, 1);
  auto from_hidden = at::cat({of_reset, of_update, of_fresh * reset}, 1);
  return {in, from_hidden, gradient * update, has_bias ? in.sum(0) : at::Tensor(),
          has_bias ? from_hidden.sum(0) : at::Tensor()};
}

/// `p` is the part that is kept. @returns the scaled values and the mask
std::tuple<at::Tensor, at::Tensor> fused_dropout(const at::Tensor& input, double p,
                                                 std::optional<at::Generator> generator) {
  auto mask = at::empty_like(input, input.options().dtype(at::kByte)).bernoulli_(p, std::move(generator));
  return {input * mask / p, mask};
}

at::Tensor masked_scale(const at::Tensor& input, const at::Tensor& mask, double scale) {
  return input * mask * scale;
}

}  // namespace

std::vector<std::pair<c10::OperatorName, c10::KernelFunction>> composites() {
  using c10::KernelFunction;
  const auto of = [](auto* function) { return KernelFunction::makeFromUnboxedRuntimeFunction(function); };
  const auto as_others = [] { return KernelFunction::makeFromBoxedFunction<&run_operator>(); };
  return {
      {{"aten::native_dropout", ""}, of(&native_dropout)},
      {{"aten::_fused_dropout", ""}, of(&fused_dropout)},
      {{"aten::_masked_scale", ""}, of(&masked_scale)},
      {{"aten::cudnn_batch_norm", ""}, of(&cudnn_batch_norm)},
      {{"aten::cudnn_batch_norm_backward", ""}, of(&cudnn_batch_norm_backward)},
      {{"aten::cudnn_is_acceptable", ""}, of(&refuse_cudnn)},
      {{"aten::_use_cudnn_ctc_loss", ""}, of(&refuse_ctc_loss)},
      {{"aten::_use_cudnn_ctc_loss", "Tensor"}, of(&refuse_ctc_loss_of_tensors)},
      {{"aten::_use_miopen_ctc_loss", ""}, of(&refuse_ctc_loss)},
      {{"aten::_use_miopen_ctc_loss", "Tensor"}, of(&refuse_ctc_loss_of_tensors)},
      {{"aten::_thnn_fused_lstm_cell", ""}, of(&lstm_cell)},
      {{"aten::_thnn_fused_lstm_cell_backward_impl", ""}, of(&lstm_cell_backward)},
      {{"aten::_thnn_fused_gru_cell", ""}, of(&gru_cell)},
      {{"aten::_thnn_fused_gru_cell_backward", ""}, of(&gru_cell_backward)},
      {{"aten::convolution", ""}, as_others()},
      {{"aten::convolution_backward", ""}, as_others()},
  };
}

}  // namespace emulated_gpu

// Linear algebra and the layers of networks give on CUDA tensors what they give on the CPU.
#include <ATen/TensorIndexing.h>
#include <gtest/gtest.h>

#include "tests/emulated_gpu/torch/trial.h"

namespace emulated_gpu {
namespace {

std::vector<Trial> linear_algebra() {
  Trials trials;
  trials.add("mm", [](Inputs& in) { return at::mm(in.normal({5, 7}), in.normal({7, 3})); });
  trials.add("addmm", [](Inputs& in) {
    return at::addmm(in.normal({3}), in.normal({5, 7}), in.normal({7, 3}), 0.5, 2);
  });
  trials.add("bmm", [](Inputs& in) { return at::bmm(in.normal({2, 5, 7}), in.normal({2, 7, 3})); });
  trials.add("matmul", [](Inputs& in) { return at::matmul(in.normal({2, 5, 7}), in.normal({7})); });
  trials.add("einsum", [](Inputs& in) {
    return at::einsum("bij,bjk->bik", {in.normal({2, 5, 7}), in.normal({2, 7, 3})});
  });
  trials.add("half_mm", [](Inputs& in) {
    return at::mm(in.normal({5, 7}, at::kHalf), in.normal({7, 3}, at::kHalf));
  });
  trials.add("dot", [](Inputs& in) { return at::dot(in.normal({7}), in.normal({7})); });
  trials.add("solve", [](Inputs& in) { return at::linalg_solve(in.normal({4, 4}), in.normal({4})); });
  trials.add("cholesky", [](Inputs& in) {
    const auto x = in.normal({4, 4});
    return Tensors{at::linalg_cholesky(at::mm(x, x.t()) + at::eye(4, in.options()))};
  });
  trials.add("svd_values", 1e-5, [](Inputs& in) { return at::linalg_svdvals(in.normal({4, 3})); });
  trials.add("inverse_det", [](Inputs& in) {
    const auto x = in.normal({4, 4});
    return Tensors{at::linalg_inv(x), at::linalg_det(x)};
  });
  trials.add("fft", 1e-5, [](Inputs& in) { return at::fft_rfft(in.normal({4, 16})); });
  trials.add("cdist", [](Inputs& in) { return at::cdist(in.normal({4, 3}), in.normal({5, 3})); });
  return trials.list;
}

std::vector<Trial> layers() {
  Trials trials;
  trials.add("linear", [](Inputs& in) {
    return at::linear(in.normal({5, 7}), in.normal({3, 7}), in.normal({3}));
  });
  trials.add("conv1d", 1e-5, [](Inputs& in) {
    return at::conv1d(in.normal({2, 3, 9}), in.normal({4, 3, 3}));
  });
  trials.add("conv2d", 1e-5, [](Inputs& in) {
    return at::conv2d(in.normal({2, 3, 9, 9}), in.normal({4, 3, 3, 3}), in.normal({4}), 2, 1);
  });
  trials.add("conv2d_channels_last", 1e-5, [](Inputs& in) {
    return at::conv2d(in.normal({2, 3, 9, 9}).contiguous(at::MemoryFormat::ChannelsLast),
                      in.normal({4, 3, 3, 3}));
  });
  trials.add("conv2d_depthwise", 1e-5, [](Inputs& in) {
    return at::conv2d(in.normal({2, 4, 9, 9}), in.normal({4, 1, 3, 3}), {}, at::IntArrayRef{1, 1},
                      at::IntArrayRef{0, 0}, at::IntArrayRef{1, 1}, 4);
  });
  trials.add("conv_transpose", 1e-5, [](Inputs& in) {
    return at::conv_transpose2d(in.normal({2, 3, 5, 5}), in.normal({3, 4, 3, 3}));
  });
  trials.add("max_pool", [](Inputs& in) { return at::max_pool2d(in.normal({2, 3, 8, 8}), 2); });
  trials.add("avg_pool", [](Inputs& in) {
    return Tensors{at::avg_pool2d(in.normal({2, 3, 8, 8}), 2),
                   at::adaptive_avg_pool2d(in.normal({2, 3, 8, 8}), {3, 3})};
  });
  trials.add("upsample", [](Inputs& in) {
    return at::upsample_bilinear2d(in.normal({2, 3, 4, 4}), {8, 8}, false);
  });
  trials.add("batch_norm", 1e-5, [](Inputs& in) {
    const auto mean = in.keep(at::zeros({3})), var = in.keep(at::ones({3}));
    return Tensors{at::batch_norm(in.normal({8, 3, 4, 4}), in.normal({3}), in.normal({3}), mean, var, true,
                                  0.1, 1e-5, true),
                   mean, var};
  });
  trials.add("batch_norm_eval", 1e-5, [](Inputs& in) {
    return at::batch_norm(in.normal({8, 3}), in.normal({3}), in.normal({3}), in.normal({3}),
                          in.normal({3}).abs(), false, 0.1, 1e-5, true);
  });
  trials.add("layer_norm", [](Inputs& in) {
    return at::layer_norm(in.normal({5, 7}), {7}, in.normal({7}), in.normal({7}));
  });
  trials.add("group_norm", [](Inputs& in) { return at::group_norm(in.normal({2, 6, 5}), 3); });
  trials.add("rms_norm", 1e-6, [](Inputs& in) { return at::rms_norm(in.normal({5, 7}), {7}); });
  trials.add("softmax", [](Inputs& in) {
    const auto x = in.normal({5, 7});
    return Tensors{x.softmax(1), x.log_softmax(0)};
  });
  trials.add("attention", 1e-5, [](Inputs& in) {
    return at::scaled_dot_product_attention(in.normal({2, 4, 5, 8}), in.normal({2, 4, 5, 8}),
                                            in.normal({2, 4, 5, 8}));
  });
  trials.add("attention_half", 1e-2, [](Inputs& in) {
    return at::scaled_dot_product_attention(in.normal({2, 4, 5, 8}, at::kHalf),
                                            in.normal({2, 4, 5, 8}, at::kHalf),
                                            in.normal({2, 4, 5, 8}, at::kHalf), {}, 0, true);
  });
  trials.add("cross_entropy", [](Inputs& in) {
    return at::cross_entropy_loss(in.normal({5, 7}), in.integers(7, {5}));
  });
  trials.add("losses", [](Inputs& in) {
    const auto x = in.normal({9}), y = in.normal({9});
    return Tensors{at::mse_loss(x, y), at::l1_loss(x, y), at::huber_loss(x, y),
                   at::binary_cross_entropy_with_logits(x, y.sigmoid()), at::kl_div(x, y.softmax(0))};
  });
  trials.add("nll_without_reduction", [](Inputs& in) {
    return at::nll_loss(in.normal({5, 7}), in.integers(7, {5}), {}, at::Reduction::None);
  });
  trials.add("ctc_loss", 1e-5, [](Inputs& in) {
    return at::ctc_loss(in.normal({12, 2, 6}).log_softmax(2), in.integers(5, {2, 3}) + 1,
                        at::IntArrayRef{12, 10}, at::IntArrayRef{3, 2});
  });
  trials.add("activations", [](Inputs& in) {
    const auto x = in.normal({9});
    return Tensors{x.relu(),    at::leaky_relu(x),         at::elu(x), at::softplus(x), at::hardtanh(x),
                   at::mish(x), at::glu(in.normal({8}), 0)};
  });
  trials.add("pad", [](Inputs& in) {
    return Tensors{at::pad(in.normal({2, 3, 4, 4}), {1, 1, 2, 0}, "reflect"),
                   at::constant_pad_nd(in.normal({3}), {1, 2}, 4)};
  });
  trials.add("foreach_add", [](Inputs& in) {
    Tensors x{in.normal({3}), in.normal({4, 2})};
    at::_foreach_add_(x, 2);
    at::_foreach_mul_(x, x);
    return x;
  });
  trials.add("foreach_norm", [](Inputs& in) {
    return at::_foreach_norm(Tensors{in.normal({3}), in.normal({4, 2})});
  });
  trials.add("foreach_lerp_addcdiv", [](Inputs& in) {
    Tensors x{in.normal({3})}, y{in.normal({3})};
    at::_foreach_lerp_(x, y, 0.1);
    at::_foreach_addcdiv_(x, y, Tensors{in.normal({3}).abs() + 1}, -0.5);
    return x;
  });
  trials.add("fused_adam", 1e-6, [](Inputs& in) {
    Tensors p{in.normal({9})}, g{in.normal({9})}, m{in.normal({9})}, v{in.normal({9}).abs()}, none,
        step{in.keep(at::ones({}))};
    at::_fused_adam_(p, g, m, v, none, step, 1e-2, 0.9, 0.99, 0.1, 1e-8, false, false);
    return Tensors{p[0], m[0], v[0], step[0]};
  });
  trials.add("gru", 1e-5, [](Inputs& in) {
    const Tensors weights{in.normal({12, 3}), in.normal({12, 4}), in.normal({12}), in.normal({12})};
    return at::gru(in.normal({5, 2, 3}), in.normal({1, 2, 4}), weights, true, 1, 0, false, false, false);
  });
  trials.add("lstm", 1e-5, [](Inputs& in) {
    const Tensors state{in.normal({1, 2, 4}), in.normal({1, 2, 4})},
        weights{in.normal({16, 3}), in.normal({16, 4}), in.normal({16}), in.normal({16})};
    return as_list(at::lstm(in.normal({5, 2, 3}), state, weights, true, 1, 0, false, false, false));
  });
  return trials.list;
}

INSTANTIATE_TEST_SUITE_P(LinearAlgebra, Operators, testing::ValuesIn(linear_algebra()), trial_name);
INSTANTIATE_TEST_SUITE_P(Layers, Operators, testing::ValuesIn(layers()), trial_name);

}  // namespace
}  // namespace emulated_gpu

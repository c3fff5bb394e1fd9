// Elementwise operators and reductions on CUDA tensors give what they give on the CPU.
#include <ATen/TensorIndexing.h>
#include <gtest/gtest.h>

#include "tests/emulated_gpu/torch/trial.h"

namespace emulated_gpu {
namespace {

using at::indexing::Slice;

std::vector<Trial> elementwise() {
  Trials trials;
  trials.add("add", [](Inputs& in) { return in.normal({5, 7}) + in.normal({5, 7}); });
  trials.add("add_broadcast", [](Inputs& in) { return in.normal({5, 1, 7}) + in.normal({4, 1}); });
  trials.add("add_number", [](Inputs& in) { return in.normal({9}) + 2.5; });
  trials.add("add_host_scalar", [](Inputs& in) { return in.normal({9}) + at::scalar_tensor(2.5); });
  trials.add("add_promotes", [](Inputs& in) { return in.integers(9, {3}, at::kInt) + in.normal({3}); });
  trials.add("add_in_place", [](Inputs& in) { return in.normal({4, 4}).add_(in.normal({4, 4}), 3); });
  trials.add("add_to_itself", [](Inputs& in) {
    const auto x = in.normal({6});
    return Tensors{x.add_(x)};
  });
  trials.add("add_in_place_on_a_view", [](Inputs& in) {
    const auto x = in.normal({6, 6});
    x.index({Slice(1, 5, 2), Slice()}).add_(1);
    return Tensors{x};
  });
  trials.add("mul_of_transposed", [](Inputs& in) { return in.normal({3, 5}).t() * in.normal({5, 3}); });
  trials.add("div_rounded", [](Inputs& in) { return at::div(in.normal({9}), in.normal({9}), "floor"); });
  trials.add("pow", [](Inputs& in) { return in.normal({8}).abs().pow(1.5); });
  trials.add("exp_log", [](Inputs& in) { return in.normal({8}).exp().log(); });
  trials.add("sigmoid_tanh", [](Inputs& in) { return in.normal({8}).sigmoid().tanh(); });
  trials.add("gelu", [](Inputs& in) { return at::gelu(in.normal({8})); });
  trials.add("silu_in_place", [](Inputs& in) {
    auto x = in.normal({8});
    return Tensors{at::silu_(x)};
  });
  trials.add("clamp", [](Inputs& in) { return in.normal({20}).clamp(-0.5, 0.5); });
  trials.add("where", [](Inputs& in) {
    const auto x = in.normal({20});
    return Tensors{at::where(x > 0, x, -x)};
  });
  trials.add("compare", [](Inputs& in) {
    const auto x = in.normal({20});
    return Tensors{x.ge(0.5), x.ne(x), x.isnan()};
  });
  trials.add("bits", [](Inputs& in) {
    return Tensors{in.integers(99, {9}).bitwise_and(5), at::bitwise_left_shift(in.integers(99, {9}), 2)};
  });
  trials.add("lerp", [](Inputs& in) { return in.normal({8}).lerp(in.normal({8}), 0.3); });
  trials.add("addcmul_addcdiv", [](Inputs& in) {
    const auto a = in.normal({8}), b = in.normal({8}), c = in.normal({8});
    return Tensors{at::addcmul(a, b, c, 2), at::addcdiv(a, b, c.abs() + 1, 2)};
  });
  trials.add("complex", 1e-5, [](Inputs& in) {
    const auto x = at::complex(in.normal({4, 3}), in.normal({4, 3}));
    return Tensors{x * x, x.conj().resolve_conj(), x.abs(), at::mm(x, x.t().conj()), at::view_as_real(x)};
  });
  trials.add("half", [](Inputs& in) { return in.normal({9}, at::kHalf) * in.normal({9}, at::kHalf); });
  trials.add("bfloat16", [](Inputs& in) { return in.normal({9}, at::kBFloat16).exp(); });
  trials.add("double", [](Inputs& in) { return in.normal({9}, at::kDouble).sqrt(); });
  trials.add("no_elements", [](Inputs& in) {
    return Tensors{in.normal({0, 5}) + 1, in.normal({0, 5}).sum(0)};
  });
  trials.add("out_argument_is_resized", [](Inputs& in) {
    auto out = at::empty({0}, in.options());
    at::add_out(out, in.normal({3}), in.normal({3}));
    return Tensors{out};
  });
  trials.add("out_argument_with_strides", [](Inputs& in) {
    auto out = in.normal({6, 4}).t();
    at::mul_out(out, in.normal({4, 6}), in.normal({4, 6}));
    return Tensors{out};
  });
  return trials.list;
}

std::vector<Trial> reductions() {
  Trials trials;
  trials.add("sum", [](Inputs& in) {
    const auto x = in.normal({5, 7});
    return Tensors{x.sum(), x.sum(0), x.sum(1, true)};
  });
  trials.add("mean_var", [](Inputs& in) {
    const auto x = in.normal({5, 7});
    return Tensors{x.mean(), x.var(1), x.std()};
  });
  trials.add("max_min", [](Inputs& in) {
    const auto x = in.normal({5, 7});
    auto r = as_list(x.max(1));
    r.push_back(x.min());
    return r;
  });
  trials.add("argmax", [](Inputs& in) { return in.normal({5, 7}).argmax(1); });
  trials.add("all_any", [](Inputs& in) {
    const auto x = in.normal({5, 7}) > 0;
    return Tensors{x.all(), x.any(1)};
  });
  trials.add("norm", [](Inputs& in) {
    const auto x = in.normal({5, 7});
    return Tensors{x.norm(), at::linalg_vector_norm(x, 1, at::IntArrayRef{1})};
  });
  trials.add("cumsum", [](Inputs& in) { return in.normal({5, 7}).cumsum(1); });
  trials.add("prod", [](Inputs& in) { return in.normal({5}).prod(); });
  trials.add("logsumexp", [](Inputs& in) { return in.normal({5, 7}).logsumexp(1); });
  trials.add("sum_of_integers", [](Inputs& in) { return in.integers(9, {50}, at::kInt).sum(); });
  trials.add("sort", [](Inputs& in) { return in.normal({5, 7}).sort(1); });
  trials.add("argsort_stable", [](Inputs& in) { return in.integers(3, {40}).argsort(true, 0); });
  trials.add("topk", [](Inputs& in) { return in.normal({5, 7}).topk(3, 1); });
  trials.add("unique", [](Inputs& in) { return at::_unique2(in.integers(5, {40}), true, true, true); });
  trials.add("unique_consecutive",
             [](Inputs& in) { return at::unique_consecutive(in.integers(3, {40}), true, true); });
  trials.add("histogram", [](Inputs& in) { return at::histc(in.normal({40}), 10, -2, 2); });
  trials.add("bincount", [](Inputs& in) { return at::bincount(in.integers(9, {40})); });
  trials.add("nonzero", [](Inputs& in) { return in.integers(2, {5, 8}).nonzero(); });
  trials.add("searchsorted",
             [](Inputs& in) { return at::searchsorted(std::get<0>(in.normal({9}).sort()), in.normal({5})); });
  trials.add("kthvalue", [](Inputs& in) { return in.normal({5, 7}).kthvalue(2, 1); });
  trials.add("trace_diagonal", [](Inputs& in) {
    const auto x = in.normal({5, 5});
    return Tensors{x.trace(), x.diagonal().sum(), at::diag(x)};
  });
  return trials.list;
}

INSTANTIATE_TEST_SUITE_P(Elementwise, Operators, testing::ValuesIn(elementwise()), trial_name);
INSTANTIATE_TEST_SUITE_P(Reductions, Operators, testing::ValuesIn(reductions()), trial_name);

}  // namespace
}  // namespace emulated_gpu

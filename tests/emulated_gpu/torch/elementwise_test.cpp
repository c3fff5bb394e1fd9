// Elementwise operators and reductions on CUDA tensors give what they give on the CPU.
#include <ATen/TensorIndexing.h>
#include <gtest/gtest.h>

#include "tests/emulated_gpu/torch/trial.h"

namespace emulated_gpu {
namespace {

using at::indexing::Slice;

std::vector<Trial> elementwise() {
  return {
      {"add",
       [](Inputs& in) {
         return Tensors{in.normal({5, 7}) + in.normal({5, 7})};
       }},
      {"add_broadcast",
       [](Inputs& in) {
         return Tensors{in.normal({5, 1, 7}) + in.normal({4, 1})};
       }},
      {"add_number", [](Inputs& in) { return Tensors{in.normal({9}) + 2.5}; }},
      {"add_host_scalar", [](Inputs& in) { return Tensors{in.normal({9}) + at::scalar_tensor(2.5)}; }},
      {"add_promotes", [](Inputs& in) { return Tensors{in.integers(9, {3}, at::kInt) + in.normal({3})}; }},
      {"add_in_place",
       [](Inputs& in) {
         return Tensors{in.normal({4, 4}).add_(in.normal({4, 4}), 3)};
       }},
      {"add_to_itself",
       [](Inputs& in) {
         const auto x = in.normal({6});
         return Tensors{x.add_(x)};
       }},
      {"add_in_place_on_a_view",
       [](Inputs& in) {
         const auto x = in.normal({6, 6});
         x.index({Slice(1, 5, 2), Slice()}).add_(1);
         return Tensors{x};
       }},
      {"mul_of_transposed",
       [](Inputs& in) {
         return Tensors{in.normal({3, 5}).t() * in.normal({5, 3})};
       }},
      {"div_rounded", [](Inputs& in) { return Tensors{at::div(in.normal({9}), in.normal({9}), "floor")}; }},
      {"pow", [](Inputs& in) { return Tensors{in.normal({8}).abs().pow(1.5)}; }},
      {"exp_log", [](Inputs& in) { return Tensors{in.normal({8}).exp().log()}; }},
      {"sigmoid_tanh", [](Inputs& in) { return Tensors{in.normal({8}).sigmoid().tanh()}; }},
      {"gelu", [](Inputs& in) { return Tensors{at::gelu(in.normal({8}))}; }},
      {"silu_in_place",
       [](Inputs& in) {
         auto x = in.normal({8});
         return Tensors{at::silu_(x)};
       }},
      {"clamp", [](Inputs& in) { return Tensors{in.normal({20}).clamp(-0.5, 0.5)}; }},
      {"where",
       [](Inputs& in) {
         const auto x = in.normal({20});
         return Tensors{at::where(x > 0, x, -x)};
       }},
      {"compare",
       [](Inputs& in) {
         const auto x = in.normal({20});
         return Tensors{x.ge(0.5), x.ne(x), x.isnan()};
       }},
      {"bits",
       [](Inputs& in) {
         return Tensors{in.integers(99, {9}).bitwise_and(5), at::bitwise_left_shift(in.integers(99, {9}), 2)};
       }},
      {"lerp", [](Inputs& in) { return Tensors{in.normal({8}).lerp(in.normal({8}), 0.3)}; }},
      {"addcmul_addcdiv",
       [](Inputs& in) {
         const auto a = in.normal({8}), b = in.normal({8}), c = in.normal({8});
         return Tensors{at::addcmul(a, b, c, 2), at::addcdiv(a, b, c.abs() + 1, 2)};
       }},
      {"complex",
       [](Inputs& in) {
         const auto x = at::complex(in.normal({4, 3}), in.normal({4, 3}));
         return Tensors{x * x, x.conj().resolve_conj(), x.abs(), at::mm(x, x.t().conj()),
                        at::view_as_real(x)};
       },
       1e-5},
      {"half", [](Inputs& in) { return Tensors{in.normal({9}, at::kHalf) * in.normal({9}, at::kHalf)}; }},
      {"bfloat16", [](Inputs& in) { return Tensors{in.normal({9}, at::kBFloat16).exp()}; }},
      {"double", [](Inputs& in) { return Tensors{in.normal({9}, at::kDouble).sqrt()}; }},
      {"no_elements",
       [](Inputs& in) {
         return Tensors{in.normal({0, 5}) + 1, in.normal({0, 5}).sum(0)};
       }},
      {"out_argument_is_resized",
       [](Inputs& in) {
         auto out = at::empty({0}, in.options());
         at::add_out(out, in.normal({3}), in.normal({3}));
         return Tensors{out};
       }},
      {"out_argument_with_strides",
       [](Inputs& in) {
         auto out = in.normal({6, 4}).t();
         at::mul_out(out, in.normal({4, 6}), in.normal({4, 6}));
         return Tensors{out};
       }},
  };
}

std::vector<Trial> reductions() {
  return {
      {"sum",
       [](Inputs& in) {
         const auto x = in.normal({5, 7});
         return Tensors{x.sum(), x.sum(0), x.sum(1, true)};
       }},
      {"mean_var",
       [](Inputs& in) {
         const auto x = in.normal({5, 7});
         return Tensors{x.mean(), x.var(1), x.std()};
       }},
      {"max_min",
       [](Inputs& in) {
         const auto x = in.normal({5, 7});
         auto r = all(x.max(1));
         r.push_back(x.min());
         return r;
       }},
      {"argmax",
       [](Inputs& in) {
         return Tensors{in.normal({5, 7}).argmax(1)};
       }},
      {"all_any",
       [](Inputs& in) {
         const auto x = in.normal({5, 7}) > 0;
         return Tensors{x.all(), x.any(1)};
       }},
      {"norm",
       [](Inputs& in) {
         const auto x = in.normal({5, 7});
         return Tensors{x.norm(), at::linalg_vector_norm(x, 1, at::IntArrayRef{1})};
       }},
      {"cumsum",
       [](Inputs& in) {
         return Tensors{in.normal({5, 7}).cumsum(1)};
       }},
      {"prod", [](Inputs& in) { return Tensors{in.normal({5}).prod()}; }},
      {"logsumexp",
       [](Inputs& in) {
         return Tensors{in.normal({5, 7}).logsumexp(1)};
       }},
      {"sum_of_integers", [](Inputs& in) { return Tensors{in.integers(9, {50}, at::kInt).sum()}; }},
      {"sort",
       [](Inputs& in) {
         return all(in.normal({5, 7}).sort(1));
       }},
      {"argsort_stable", [](Inputs& in) { return Tensors{in.integers(3, {40}).argsort(true, 0)}; }},
      {"topk",
       [](Inputs& in) {
         return all(in.normal({5, 7}).topk(3, 1));
       }},
      {"unique", [](Inputs& in) { return all(at::_unique2(in.integers(5, {40}), true, true, true)); }},
      {"unique_consecutive",
       [](Inputs& in) { return all(at::unique_consecutive(in.integers(3, {40}), true, true)); }},
      {"histogram", [](Inputs& in) { return Tensors{at::histc(in.normal({40}), 10, -2, 2)}; }},
      {"bincount", [](Inputs& in) { return Tensors{at::bincount(in.integers(9, {40}))}; }},
      {"nonzero",
       [](Inputs& in) {
         return Tensors{in.integers(2, {5, 8}).nonzero()};
       }},
      {"searchsorted",
       [](Inputs& in) {
         return Tensors{at::searchsorted(std::get<0>(in.normal({9}).sort()), in.normal({5}))};
       }},
      {"kthvalue",
       [](Inputs& in) {
         return all(in.normal({5, 7}).kthvalue(2, 1));
       }},
      {"trace_diagonal",
       [](Inputs& in) {
         const auto x = in.normal({5, 5});
         return Tensors{x.trace(), x.diagonal().sum(), at::diag(x)};
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(Elementwise, Operators, testing::ValuesIn(elementwise()), trial_name);
INSTANTIATE_TEST_SUITE_P(Reductions, Operators, testing::ValuesIn(reductions()), trial_name);

}  // namespace
}  // namespace emulated_gpu

// Operators that index and copy give on CUDA tensors what they give on the CPU.
#include <ATen/TensorIndexing.h>
#include <gtest/gtest.h>

#include "tests/emulated_gpu/torch/trial.h"

namespace emulated_gpu {
namespace {

using at::indexing::None;
using at::indexing::Slice;

at::Tensor rows(const std::vector<std::int64_t>& numbers) { return at::tensor(numbers, at::kLong); }

std::vector<Trial> indexing() {
  Trials trials;
  trials.add("index_select", [](Inputs& in) {
    return in.normal({9, 4}).index_select(0, in.integers(9, {20}));
  });
  trials.add("index_select_int32", [](Inputs& in) {
    return in.normal({9, 4}).index_select(0, in.integers(9, {20}, at::kInt));
  });
  trials.add("index_select_out", [](Inputs& in) {
    auto out = at::empty({20, 4}, in.options());
    at::index_select_out(out, in.normal({9, 4}), 0, in.integers(9, {20}));
    return Tensors{out};
  });
  trials.add("index", [](Inputs& in) { return in.normal({9, 4}).index({in.integers(9, {6})}); });
  trials.add("index_two", [](Inputs& in) {
    return in.normal({9, 4}).index({in.integers(9, {6}), in.integers(4, {6})});
  });
  trials.add("index_by_host", [](Inputs& in) { return in.normal({9, 4}).index({rows({3, 1})}); });
  trials.add("index_by_mask", [](Inputs& in) {
    const auto x = in.normal({9, 4});
    return Tensors{x.index({x > 0}), x.masked_select(x > 0)};
  });
  trials.add("index_put", [](Inputs& in) {
    auto x = in.normal({9, 4});
    x.index_put_({in.keep(rows({1, 3}))}, in.normal({2, 4}));
    return Tensors{x};
  });
  trials.add("index_put_accumulates", [](Inputs& in) {
    auto x = in.normal({9, 4});
    x.index_put_({in.integers(9, {30})}, in.normal({30, 4}), true);
    return Tensors{x};
  });
  trials.add("index_put_by_mask", [](Inputs& in) {
    auto x = in.normal({9, 4});
    x.index_put_({x > 0}, at::scalar_tensor(5));
    return Tensors{x};
  });
  trials.add("index_copy", [](Inputs& in) {
    return in.normal({9, 4}).index_copy_(0, in.keep(rows({1, 3})), in.normal({2, 4}));
  });
  trials.add("index_add", [](Inputs& in) {
    return in.normal({9, 4}).index_add_(0, in.integers(9, {30}), in.normal({30, 4}));
  });
  trials.add("index_fill", [](Inputs& in) {
    return in.normal({9, 4}).index_fill_(0, in.keep(rows({1, 3})), 2);
  });
  trials.add("gather_scatter", [](Inputs& in) {
    const auto x = in.normal({9, 4}), i = in.integers(9, {3, 4});
    return Tensors{x.gather(0, i), x.scatter_add(0, i, in.normal({3, 4}))};
  });
  trials.add("scatter_reduce", [](Inputs& in) {
    return in.normal({9}).scatter_reduce(0, in.integers(9, {30}), in.normal({30}), "amax");
  });
  trials.add("take_put", [](Inputs& in) { return in.normal({9, 4}).take(in.integers(36, {5})); });
  trials.add("masked_fill", [](Inputs& in) {
    const auto x = in.normal({9, 4});
    return Tensors{x.masked_fill(x > 0, 7)};
  });
  trials.add("masked_scatter", [](Inputs& in) {
    const auto x = in.normal({9, 4});
    return Tensors{x.masked_scatter(x > 0, in.normal({36}))};
  });
  trials.add("slices", [](Inputs& in) {
    const auto x = in.normal({9, 4});
    return Tensors{x.index({Slice(None, None, 2)}).contiguous(), x.narrow(0, 2, 3) * 2};
  });
  trials.add("embedding", [](Inputs& in) {
    return at::embedding(in.normal({9, 4}), in.integers(9, {3, 5}));
  });
  trials.add("embedding_dense_backward", [](Inputs& in) {
    return at::embedding_dense_backward(in.normal({15, 4}), in.integers(9, {15}), 9, -1, false);
  });
  trials.add("embedding_bag", [](Inputs& in) {
    return std::get<0>(at::embedding_bag(in.normal({9, 4}), in.integers(9, {15}), in.keep(rows({0, 4, 9}))));
  });
  trials.add("repeat_interleave",
             [](Inputs& in) { return in.normal({4}).repeat_interleave(in.integers(3, {4})); });
  trials.add("flip_roll", [](Inputs& in) {
    const auto x = in.normal({4, 5});
    return Tensors{x.flip({1}), x.roll(2, 0)};
  });
  trials.add("cat_stack_split", [](Inputs& in) {
    const auto a = in.normal({4, 5}), b = in.normal({4, 5});
    auto r = at::cat({a, b}, 1).split(3, 1);
    r.push_back(at::stack({a, b}));
    return r;
  });
  trials.add("tril_triu", [](Inputs& in) {
    const auto x = in.normal({5, 5});
    return Tensors{x.tril(), x.triu(1)};
  });
  trials.add("copy_converts", [](Inputs& in) {
    return at::empty({5, 4}, in.options(at::kHalf)).copy_(in.normal({4, 5}).t());
  });
  trials.add("copy_from_host", [](Inputs& in) {
    return in.normal({5, 4}).t().copy_(at::arange(20).view({4, 5}));
  });
  trials.add("copy_to_host_and_back", [](Inputs& in) {
    return in.normal({5, 4}).t().to(at::kCPU, at::kDouble).to(in.device());
  });
  trials.add("bucketize_one_hot", [](Inputs& in) { return at::one_hot(in.integers(5, {9}), 5); });
  trials.add("factories", [](Inputs& in) {
    return Tensors{at::arange(9, in.options()), at::linspace(0, 1, 5, in.options()), at::eye(3, in.options()),
                   at::full({3}, 2, in.options()), at::tril_indices(3, 3, 0, in.options(at::kLong))};
  });
  return trials.list;
}

INSTANTIATE_TEST_SUITE_P(Indexing, Operators, testing::ValuesIn(indexing()), trial_name);

}  // namespace
}  // namespace emulated_gpu

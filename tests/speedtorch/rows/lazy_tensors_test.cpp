/// Tensors whose memory does not hold their numbers: each function resolves what it reads and refuses to
/// write to them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/error.h"
#include "speedtorch/files/file_rows.h"
#include "speedtorch/optim/optimizers.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/rows/duplicates.h"
#include "speedtorch/rows/gather.h"
#include "speedtorch/rows/hybrid_operands.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/system/mapping.h"
#include "speedtorch/tables/co_occurrence.h"
#include "speedtorch/tables/data_gadget.h"
#include "speedtorch/tables/model_factory.h"
#include "speedtorch/tables/table_rows.h"
#include "tests/harness/temporary_folder.h"

namespace speedtorch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Lazy {
  std::string name;
  at::Tensor tensor;
};

/// Every lazy tensor of that dtype and shape that LibTorch can create.
std::vector<Lazy> lazy_tensors(at::IntArrayRef sizes, at::ScalarType dtype) {
  std::vector<Lazy> found{{"zeros", at::_efficientzerotensor(sizes, at::TensorOptions(dtype))}};
  const auto numbers = at::randint(1, 100, sizes, at::kLong);
  if (dtype != at::kBool) found.push_back({"negated", at::_neg_view(numbers.to(dtype))});
  if (at::isComplexType(dtype)) {
    const auto turned = at::complex(numbers.to(at::kDouble), numbers.to(at::kDouble) + 1).to(dtype).conj();
    found.push_back({"conjugated", turned});
    if (dtype != at::kComplexHalf)
      found.push_back({"both", at::_neg_view(turned)});  // LibTorch cannot compute it
  }
  return found;
}

/// The same numbers in memory, by LibTorch's own arithmetic.
at::Tensor in_memory(const at::Tensor& lazy) {
  return at::zeros(lazy.sizes(), lazy.options()).copy_(lazy).resolve_conj().resolve_neg();
}

const std::vector<std::int64_t> kRows{3, 0, 3, 6};
at::Tensor some_rows() { return at::tensor(kRows, at::kLong); }

/// LibTorch does not compare half-precision complex numbers.
bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == at::kComplexHalf ? at::equal(a.to(at::kComplexFloat), b.to(at::kComplexFloat))
                                             : at::equal(a, b);
}

class LazyTensors : public testing::TestWithParam<at::ScalarType> {};

TEST_P(LazyTensors, GathersTheNumbersOfATable) {
  for (const auto& [name, table] : lazy_tensors({7, 3}, GetParam())) {
    const auto expected = in_memory(table).index_select(0, some_rows());
    auto out = at::zeros({4, 3}, GetParam());
    gather_rows(table, some_rows(), out);
    EXPECT_TRUE(same(out, expected)) << name;
    EXPECT_TRUE(same(gather_rows(table, some_rows()), expected)) << name;
    EXPECT_TRUE(same(Table::from_array(table, {Placement::pageable}).tensor(), in_memory(table))) << name;
  }
}

TEST_P(LazyTensors, ScattersTheNumbersOfValues) {
  const auto distinct = at::tensor({3, 0, 5, 6}, at::kLong);
  for (const auto& [name, values] : lazy_tensors({4, 3}, GetParam())) {
    const auto expected = at::ones({7, 3}, GetParam()).index_copy(0, distinct, in_memory(values));
    auto table = at::ones({7, 3}, GetParam());
    scatter_rows(table, distinct, values);
    EXPECT_TRUE(same(table, expected)) << name;
    for (const auto duplicates : {Duplicates::none, Duplicates::reject, Duplicates::last}) {
      table.fill_(1);
      scatter_rows(table, distinct, values, duplicates);
      EXPECT_TRUE(same(table, expected)) << name;
      auto gadget = DataGadget::from_tensor(at::ones({7, 3}, GetParam()), {Placement::pageable});
      gadget.insert_data(values, distinct, duplicates);
      EXPECT_TRUE(same(gadget.table().tensor(), expected)) << name;
    }
    auto copy = at::ones({4, 3}, GetParam());
    stream_copy(values, copy);
    EXPECT_TRUE(same(copy, in_memory(values))) << name;
    if (GetParam() == at::kComplexHalf || GetParam() == at::kBool) continue;
    table.fill_(1);
    scatter_rows(table, some_rows(), values, Duplicates::accumulate);
    EXPECT_TRUE(same(table, at::ones({7, 3}, GetParam()).index_add(0, some_rows(), in_memory(values))))
        << name;
  }
}

TEST_P(LazyTensors, RefusesToWriteToOne) {
  const auto table = at::ones({7, 3}, GetParam());
  for (auto& [name, out] : lazy_tensors({4, 3}, GetParam())) {
    EXPECT_THAT([&] { gather_rows(table, some_rows(), out); },
                ThrowsMessage<LazyTensorError>(
                    HasSubstr("out (" + std::string(c10::toString(GetParam())) + " [4, 3])")));
    EXPECT_THROW(gather_rows(Table::from_array(table, {Placement::pageable}), some_rows(), out),
                 LazyTensorError);
    EXPECT_THROW(stream_copy(at::ones({4, 3}, GetParam()), out), LazyTensorError);
    EXPECT_THROW(fill(out, Zeros{}), LazyTensorError);
    const auto index = at::tensor({1}, at::kLong);
    EXPECT_THROW(scatter_rows(out, index, at::ones({1, 3}, GetParam())), LazyTensorError) << name;
    for (const auto duplicates : {Duplicates::none, Duplicates::last, Duplicates::reject})
      EXPECT_THROW(scatter_rows(out, index, at::ones({1, 3}, GetParam()), duplicates), LazyTensorError)
          << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LazyTensors,
                         testing::Values(at::kBool, at::kChar, at::kByte, at::kShort, at::kInt, at::kLong,
                                         at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexHalf,
                                         at::kComplexFloat, at::kComplexDouble),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

/// The gradient of a conjugated table, and a conjugated gradient, against index_select's.
TEST(LazyGradients, AreThoseOfIndexSelect) {
  const auto values = at::randn({7, 3}, at::kComplexDouble), weights = at::randn({4, 3}, at::kComplexDouble);
  const auto gradients = [&](const auto& gather, bool lazy_table) {
    auto table = values.clone().requires_grad_();
    const auto rows = gather(lazy_table ? table.conj() : table);
    at::real((rows.conj() * weights).pow(2)).sum().backward();
    return table.grad().resolve_conj();
  };
  for (const bool lazy_table : {false, true}) {
    const auto ours = gradients([](const at::Tensor& t) { return gather_rows(t, some_rows()); }, lazy_table);
    const auto theirs =
        gradients([](const at::Tensor& t) { return t.index_select(0, some_rows()); }, lazy_table);
    EXPECT_TRUE(at::allclose(ours, theirs, 1e-12)) << lazy_table << (ours - theirs).abs().max();
  }
}

/// A negated index and a zero index select the rows of their numbers.
TEST(LazyIndices, AreComputed) {
  const auto table = at::arange(21, at::kFloat).view({7, 3});
  const std::vector<at::Tensor> indices{at::_neg_view(at::tensor({-3, 0, -3, -6}, at::kLong)),
                                        at::_efficientzerotensor({4}, at::TensorOptions(at::kLong))};
  for (const auto& index : indices) {
    const auto rows = table.index_select(0, in_memory(index));
    auto out = at::zeros({4, 3});
    gather_rows(table, index, out);
    EXPECT_TRUE(at::equal(out, rows));
    EXPECT_TRUE(at::equal(gather_rows(table, index), rows));
    auto target = at::zeros({7, 3});
    scatter_rows(target, index, rows);
    EXPECT_TRUE(at::equal(target.index_select(0, in_memory(index)), rows));
    EXPECT_TRUE(at::equal(distinct_rows(index, 7).rows, std::get<0>(at::_unique(in_memory(index)))));
    CoOccurrence counts(7, {Placement::pageable});
    counts.add_pairs(index, index);
    EXPECT_EQ(counts.counts().sum().item<std::int64_t>(), 4);
    EXPECT_EQ(counts.counts()[in_memory(index)[0]][in_memory(index)[0]].item<std::int64_t>(),
              index._is_zerotensor() ? 4 : 2);
  }
}

TEST(LazyOptimizers, StepByTheNumbersOfAGradient) {
  const auto options = AdamOptions{.lr = 0.1};
  for (const auto& [name, grad] : lazy_tensors({4, 3}, at::kDouble)) {
    std::vector<at::Tensor> tables;
    for (const auto& given : {grad, in_memory(grad)}) {
      SparseRows rows(at::ones({7, 3}, at::kDouble), options, {Placement::pageable});
      rows.step(some_rows(), given);
      tables.push_back(rows.table().clone());
      auto parameter = at::ones({4, 3}, at::kDouble).requires_grad_();
      optim::Adam adam({parameter}, options);
      parameter.mutable_grad() = given;
      adam.step();
      tables.push_back(parameter.detach().clone());
    }
    EXPECT_TRUE(at::equal(tables[0], tables[2])) << name;
    EXPECT_TRUE(at::equal(tables[1], tables[3])) << name;
  }
}

TEST(LazyOptimizers, RefuseParametersAndStates) {
  const auto options = AdamOptions{};
  for (const auto& [name, lazy] : lazy_tensors({7, 3}, at::kFloat)) {
    const auto table = at::ones({7, 3});
    EXPECT_THROW(SparseRows(lazy, options), LazyTensorError) << name;
    EXPECT_THAT(
        [&] {
          SparseRows(table, options, {at::zeros({7, 3}), lazy});
        },
        ThrowsMessage<LazyTensorError>(HasSubstr("the state exp_avg_sq")));
    auto leaf = lazy.detach().requires_grad_();
    EXPECT_THROW(ContiguousOptimizer({leaf}, options), BufferError) << name;
    EXPECT_THROW(ModelFactory(leaf, 7), LazyTensorError) << name;
    optim::Adam adam({leaf}, options);
    leaf.mutable_grad() = at::ones({7, 3});
    EXPECT_THROW(adam.step(), LazyTensorError) << name;
  }
  ContiguousParameters parameters({at::ones({3}).requires_grad_()});
  EXPECT_THROW(parameters.split({at::_neg_view(parameters.contiguous()[0].detach())}), LazyTensorError);
}

TEST(LazyFiles, RowsOfAFileGoToMemoryOnly) {
  const stbench::test::TemporaryFolder folder;
  const Descriptor file(::open(folder.write("rows", "abcdefgh").c_str(), O_RDONLY | O_CLOEXEC));
  FileRows rows({file.get(), 0, 8, 1});
  auto out = at::zeros({2}, at::kByte);
  rows.gather(at::_neg_view(at::tensor({-7, -1}, at::kLong)), out);
  EXPECT_TRUE(at::equal(out, at::tensor({104, 98}, at::kByte)));
  auto lazy = at::_neg_view(out);
  EXPECT_THROW(rows.gather(at::tensor({0, 1}, at::kLong), lazy), LazyTensorError);
}

TEST(LazyHybrid, OperandsAreRefused) {
  const auto table = at::ones({7, 3}), index = some_rows(), out = at::ones({4, 3});
  check_hybrid_operands(table, 4, index, index, out);
  EXPECT_THROW(check_hybrid_operands(table, 4, at::_neg_view(index), index, out), LazyTensorError);
  EXPECT_THROW(check_hybrid_operands(table, 4, index, at::_neg_view(index), out), LazyTensorError);
  EXPECT_THROW(check_hybrid_operands(table, 4, index, index, at::_neg_view(out)), LazyTensorError);
}

}  // namespace
}  // namespace speedtorch

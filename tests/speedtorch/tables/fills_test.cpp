#include "speedtorch/tables/fills.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/tables/philox.h"

namespace speedtorch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Restores the pool's size at its end.
class PoolSize {
 public:
  ~PoolSize() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

at::Tensor filled(at::IntArrayRef sizes, at::ScalarType dtype, const Fill& with, std::int64_t first = 0) {
  auto tensor = at::empty(sizes, dtype);
  fill(tensor, with, first);
  return tensor;
}

/// numpy.random.Philox(key=7).random_raw(5), and the authors' known answers of philox4x64 for zeros.
TEST(Philox, GivesThePublishedWords) {
  EXPECT_EQ(random_block(7, 0),
            (PhiloxBlock{0xdf4034b829e9fba4, 0x4b9d10cdf8e64087, 0x6b8b857e506aac98, 0x67c7c945b1ba6e52}));
  EXPECT_EQ(random_block(7, 1)[0], 0x15352da77ecee8e6);
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b, 0x7e68b68aec7ba23b}));
}

/// Every fill with every dtype that supports it.
std::vector<std::pair<Fill, at::ScalarType>> all_fills() {
  std::vector<std::pair<Fill, at::ScalarType>> all;
  const ByPieces numbers = [](at::Tensor& rows, std::int64_t first) {
    for (std::int64_t row = 0; row < rows.size(0); ++row) rows[row].fill_((first + row) % 113);
  };
  for (const auto dtype :
       {at::kByte, at::kShort, at::kLong, at::kUInt64, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    all.emplace_back(Zeros{}, dtype);
    all.emplace_back(Uniform{1, 100, 5}, dtype);
    if (at::isFloatingType(dtype)) all.emplace_back(Normal{1, 2, 5}, dtype);
    if (dtype != at::kUInt64) all.emplace_back(numbers, dtype);  // LibTorch itself has few operations for it
  }
  return all;
}

TEST(Fill, IsTheSameOnAnyNumberOfThreads) {
  const PoolSize restored;
  for (const auto& [with, dtype] : all_fills()) {
    at::set_num_threads(1);
    const auto one = filled({3001, 67}, dtype, with);
    for (const int threads : {2, 3, 5}) {
      at::set_num_threads(threads);
      EXPECT_TRUE(at::equal(filled({3001, 67}, dtype, with).view(at::kByte), one.view(at::kByte))) << dtype;
    }
  }
}

TEST(Fill, SetsEveryElementOfItsWindowAndNoOther) {
  for (const auto& [with, dtype] : all_fills()) {
    if (std::holds_alternative<Normal>(with)) continue;
    auto around = at::full({1002, 67}, 120, at::TensorOptions().dtype(at::kByte)).to(dtype);
    auto inner = around.narrow(0, 1, 1000);
    fill(inner, with);
    const auto left = (around.to(at::kDouble) == 120).sum({1});
    EXPECT_EQ((left == 67).sum().item<std::int64_t>(), 2) << dtype;
    EXPECT_EQ((left > 0).sum().item<std::int64_t>(), 2) << dtype;
  }
}

TEST(Fill, AWindowEqualsThatPartOfTheTable) {
  for (const auto& [with, dtype] : all_fills()) {
    const auto whole = filled({40'000, 9}, dtype, with);
    for (const auto& [row, rows] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {17, 3}, {20'001, 19'999}})
      EXPECT_TRUE(at::equal(filled({rows, 9}, dtype, with, row * 9).view(at::kByte),
                            whole.narrow(0, row, rows).view(at::kByte)))
          << dtype << " from row " << row;
  }
}

TEST(Fill, AnotherSeedGivesOtherNumbers) {
  const auto a = filled({1000}, at::kDouble, Uniform{0, 1, 1}),
             b = filled({1000}, at::kDouble, Uniform{0, 1, 2});
  EXPECT_FALSE((a == b).any().item<bool>());
}

TEST(Fill, ConcurrentFillsEqualASingleOne) {
  const auto expected = filled({100'000}, at::kFloat, Normal{0, 1, 9});
  std::vector<std::thread> callers;
  std::atomic<int> equal = 0;
  for (int caller = 0; caller < 8; ++caller)
    callers.emplace_back([&] {
      equal += at::equal(filled({100'000}, at::kFloat, Normal{0, 1, 9}), expected) ? 1 : 0;
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(equal, 8);
}

TEST(UniformFill, KeepsToBoundsThatTheDtypeDoesNotHold) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat}) {
    const auto values = filled({200'000}, dtype, Uniform{0.1, 0.3, 4}).to(at::kDouble);
    EXPECT_GE(values.min().item<double>(), 0.1);
    EXPECT_LT(values.max().item<double>(), 0.3);
  }
  const auto narrow =
      filled({10'000}, at::kBFloat16, Uniform{1.0, 1.0078, 4});  // the next number is 1.0078125
  EXPECT_TRUE((narrow == 1.0).all().item<bool>());
  const auto about_zero = filled({10'000}, at::kHalf, Uniform{-1e-30, 1e-30, 4});
  EXPECT_TRUE((about_zero == 0).all().item<bool>());
  const auto widest = filled({10'000}, at::kHalf, Uniform{-65504, 65504, 4});
  EXPECT_TRUE(at::isfinite(widest).all().item<bool>());
}

TEST(UniformFill, ReachesBothEndsOfIntegersAndNotTheBound) {
  const auto bytes = filled({100'000}, at::kByte, Uniform{250, 256, 1});
  EXPECT_EQ(bytes.min().item<int>(), 250);
  EXPECT_EQ(bytes.max().item<int>(), 255);
  const auto flags = filled({1000}, at::kBool, Uniform{0, 2, 1}).sum().item<std::int64_t>();
  EXPECT_GT(flags, 400);
  EXPECT_LT(flags, 600);
  const auto all = filled({1000}, at::kLong, Uniform{std::numeric_limits<std::int64_t>::min(), 0x1p63, 1});
  EXPECT_GT((all < -(std::int64_t{1} << 62)).sum().item<std::int64_t>(), 150);
  EXPECT_GT((all > std::int64_t{1} << 62).sum().item<std::int64_t>(), 150);
}

TEST(Fill, RefusesNumbersThatTheDtypeCannotHold) {
  const auto refused = [](at::ScalarType dtype, const Fill& with, const std::string& text) {
    auto tensor = at::zeros({10}, dtype);
    EXPECT_THAT([&] { fill(tensor, with); }, ThrowsMessage<FillError>(HasSubstr(text)));
    EXPECT_TRUE((tensor == 0).all().item<bool>());
  };
  const double infinite = std::numeric_limits<double>::infinity(), none = std::nan("");
  refused(at::kHalf, Uniform{0, 1e6}, "Half does not hold 1e+06");
  refused(at::kFloat, Uniform{none, 1}, "does not hold nan");
  refused(at::kFloat, Uniform{0, infinite}, "does not hold inf");
  refused(at::kDouble, Uniform{-1.5e308, 1.5e308}, "does not hold inf");
  refused(at::kFloat, Uniform{1, 1}, "from 1 to below 1");
  refused(at::kFloat, Uniform{2, 1}, "from 2 to below 1");
  refused(at::kBFloat16, Uniform{1.001, 1.002}, "no number from 1.001 to below 1.002");
  refused(at::kByte, Uniform{-1, 10}, "Byte has no integers from -1 to below 10");
  refused(at::kByte, Uniform{0, 257}, "to below 257");
  refused(at::kInt, Uniform{0.5, 2}, "0.5 is no whole number");
  refused(at::kInt, Uniform{0, none}, "nan is no whole number");
  refused(at::kInt, Uniform{3, 3}, "from 3 to below 3");
  refused(at::kInt, Normal{}, "Int cannot hold a normal distribution");
  refused(at::kFloat, Normal{0, -1}, "-1 is below 0");
  refused(at::kFloat, Normal{0, none}, "nan is negative or NaN");
  refused(at::kFloat, Normal{none, 1}, "does not hold nan");
  refused(at::kHalf, Normal{0, 1e4}, "Half does not hold 86000");
  refused(at::kComplexFloat, Uniform{}, "dtype ComplexFloat");
  refused(at::kFloat, Uniform{c10::complex<double>(1, 1), 2}, "complex");
}

TEST(Fill, RefusesOtherTensors) {
  auto strided = at::zeros({4, 4}).t();
  EXPECT_THAT([&] { fill(strided, Zeros{}); }, ThrowsMessage<ShapeError>(HasSubstr("contiguous")));
  auto table = at::zeros({4, 4});
  EXPECT_THAT([&] { fill(table, Zeros{}, -1); }, ThrowsMessage<ShapeError>(HasSubstr("-1")));
  EXPECT_THAT([&] { fill(table, Custom([](at::Tensor&) {}), 6); },
              ThrowsMessage<FillError>(HasSubstr("position 6 is inside one")));
  for (const Fill& unseeded : {Fill(Uniform{}), Fill(Normal{})})
    EXPECT_THAT([&] { fill(table, unseeded, 6); },
                ThrowsMessage<FillError>(HasSubstr("a window needs the table's seed")));
  EXPECT_THAT([&] { fill(table, ByPieces([](at::Tensor&, std::int64_t) {}), 6); },
              ThrowsMessage<ShapeError>(HasSubstr("position 6")));
  auto scalar = at::zeros({});
  EXPECT_THAT([&] { fill(scalar, ByPieces([](at::Tensor&, std::int64_t) {})); },
              ThrowsMessage<ShapeError>(HasSubstr("no dimensions")));
  auto nothing = at::empty({0, 3});
  fill(nothing, Uniform{});
}

TEST(CustomFill, GetsEachRowOnceInPiecesThatTheShapeDecides) {
  const PoolSize restored;
  std::set<std::pair<std::int64_t, std::int64_t>> first_pieces;
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    std::set<std::pair<std::int64_t, std::int64_t>> pieces;
    std::mutex lock;
    auto table = at::zeros({70'001, 5, 7});
    fill(table, ByPieces([&](at::Tensor& rows, std::int64_t first) {
           EXPECT_EQ(rows.sizes().slice(1), (at::IntArrayRef{5, 7}));
           rows.add_(1);
           const std::scoped_lock held(lock);
           pieces.emplace(first, rows.size(0));
         }));
    EXPECT_TRUE((table == 1).all().item<bool>());
    EXPECT_GT(pieces.size(), 1U);
    if (threads == 1) first_pieces = pieces;
    EXPECT_EQ(pieces, first_pieces);
  }
}

TEST(CustomFill, MayThrow) {
  auto table = at::zeros({100'000, 16});
  EXPECT_THAT(
      [&] {
        fill(table, ByPieces([](at::Tensor& rows, std::int64_t first) {
               if (first > 0) throw std::runtime_error("row " + std::to_string(first));
               rows.fill_(1);
             }));
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("row ")));
}

TEST(CustomFill, WorksInInferenceMode) {
  const c10::InferenceMode inference;
  auto table = at::zeros({100'000, 16});
  fill(table, ByPieces([](at::Tensor& rows, std::int64_t) { rows.fill_(3); }));
  EXPECT_TRUE((table == 3).all().item<bool>());
}

TEST(Fill, AcceptsAParameterThatRequiresGradients) {
  auto parameter = at::zeros({10, 10}).requires_grad_();
  fill(parameter, Uniform{1, 2, 0});
  EXPECT_GE(parameter.min().item<float>(), 1.0F);
}

}  // namespace
}  // namespace speedtorch

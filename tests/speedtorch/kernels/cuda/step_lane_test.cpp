// A sparse step on a GPU, thread by thread on the host, against the host's own step.

#include "speedtorch/kernels/cuda/step_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "speedtorch/kernels/isa.h"
#include "speedtorch/kernels/steps/sparse_step.h"
#include "tests/speedtorch/kernels/steps/every_update.h"

namespace speedtorch::kernels {
namespace {

/// Counts as the device does, without its races.
struct HostMemory {
  void bad_index(IndexErrors* errors, std::int64_t position, std::int64_t index, std::int64_t rows) const {
    ++errors->count;
    errors->first_position = std::min(errors->first_position, static_cast<unsigned long long>(position));
    errors->seen_index = index;
    errors->seen_rows = rows;
  }
};

/// Keys that own their arrays, built from an index as the kernels and CUB do.
struct HostKeys {
  HostKeys(const std::vector<std::int64_t>& index, std::int64_t rows, IndexErrors* errors)
      : keys(index.size()), positions(index.size()), numbers(index.size()), begins(index.size() + 1, -1) {
    const auto count = static_cast<std::int64_t>(index.size());
    std::vector<std::int64_t> unsorted(index.size());
    const StepKeys first{unsorted.data(), positions.data(), nullptr, nullptr, nullptr};
    const HostMemory memory;
    for (std::int64_t i = count; i-- > 0;) key_index(first, index.data(), i, rows, errors, memory);
    std::stable_sort(positions.begin(), positions.end(), [&](std::int32_t a, std::int32_t b) {
      return unsorted[static_cast<std::size_t>(a)] < unsorted[static_cast<std::size_t>(b)];
    });
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = unsorted[static_cast<std::size_t>(positions[i])];
    for (std::int64_t i = 0; i < count; ++i) mark_key(view(), i);
    std::partial_sum(numbers.begin(), numbers.end(), numbers.begin());
    for (std::int64_t i = count; i-- > 0;) place_key(view(), i, count);
  }

  StepKeys view() { return {keys.data(), positions.data(), numbers.data(), begins.data(), &distinct}; }

  std::vector<std::int64_t> keys;
  std::vector<std::int32_t> positions, numbers, begins;
  std::int32_t distinct = -1;
};

constexpr std::int64_t kRows = 23;

const std::vector<std::int64_t>& repeating_index() {
  static const std::vector<std::int64_t> index{7, 3, 7, 7, 22, 0, 3, 22, 1, 0, 7, 9, 9, 7};
  return index;
}

/// With an extra row behind the last, which nothing may touch.
template <class T>
struct Tables {
  explicit Tables(std::int64_t row_columns) : columns(row_columns) {
    std::mt19937 random(1);
    std::uniform_real_distribution<T> positive(T(0.1), T(1));
    for (auto& table : values) {
      table.resize(static_cast<std::size_t>((kRows + 1) * columns));
      for (auto& value : table) value = positive(random);
    }
  }
  StepTables<T> view() {
    return {values[0].data(), {values[1].data(), values[2].data(), values[3].data()}, kRows, columns};
  }

  /// Compares bits: if a mean of squares is below the square of a mean, the result is NaN.
  [[nodiscard]] bool same(const Tables& other, std::size_t table) const {
    const auto& mine = values[table];
    return std::memcmp(mine.data(), other.values[table].data(), mine.size() * sizeof(T)) == 0;
  }

  std::int64_t columns;
  std::vector<T> values[1 + kMostStates];
};

template <class T>
std::vector<T> gradients(std::size_t count, std::int64_t columns) {
  std::mt19937 random(2);
  std::normal_distribution<T> normal;
  std::vector<T> values(count * static_cast<std::size_t>(columns));
  for (auto& value : values) value = normal(random);
  return values;
}

/// Runs all threads of a launch one after the other, the last first.
template <class T>
void step_as_device(const AnyUpdate<T>& update, const StepTables<T>& tables, StepKeys keys, const T* grad,
                    std::int64_t step, std::int64_t threads) {
  const auto count = keys.begins[*keys.distinct];
  std::vector<T> folds(static_cast<std::size_t>(count / kFoldedCopies * tables.columns),
                       std::numeric_limits<T>::quiet_NaN());
  const LaneStep<T> work{tables, grad, keys, folds.data(), step_lane_bits(tables.columns)};
  for (std::int64_t thread = threads; thread-- > 0;) fold_lane(work, count, thread, threads);
  std::visit(
      [&](const auto& one) {
        for (std::int64_t thread = threads; thread-- > 0;)
          step_lane(work, one, one.at(step), thread, threads);
      },
      update);
}

template <class T>
void check_every_update(std::int64_t columns) {
  if (isa_in_use() == "baseline")
    GTEST_SKIP() << "the host's step does not fuse here";
  const auto& index = repeating_index();
  const auto grad = gradients<T>(index.size(), columns);
  HostKeys keys(index, kRows, nullptr);
  for (const auto& options : every_update()) {
    const auto update = make_update<T>(options);
    Tables<T> found(columns);
    Tables<T> wanted(columns);
    SparseStep<T> host(update, wanted.view());
    for (int step = 1; step <= 2; ++step) {
      step_as_device(update, found.view(), keys.view(), grad.data(), step, 64);
      host.run(index.data(), static_cast<std::int64_t>(index.size()), grad.data(), step, serial_for);
    }
    for (std::size_t k = 0; k <= kMostStates; ++k)
      ASSERT_TRUE(found.same(wanted, k)) << "update " << options.index() << ", table " << k;
  }
}

TEST(CudaStepLane, EveryUpdateIsTheHostsInFloat32) {
  for (const std::int64_t columns : {1, 2, 3, 31, 32, 33, 100}) check_every_update<float>(columns);
}

TEST(CudaStepLane, EveryUpdateIsTheHostsInFloat64) {
  for (const std::int64_t columns : {1, 5, 65}) check_every_update<double>(columns);
}

TEST(CudaStepLane, AnyNumberOfThreadsStepsEachElementOnce) {
  const auto& index = repeating_index();
  const auto grad = gradients<float>(index.size(), 7);
  HostKeys keys(index, kRows, nullptr);
  const auto update = make_update<float>(AdamOptions{});
  Tables<float> wanted(7);
  step_as_device(update, wanted.view(), keys.view(), grad.data(), 1, 32);
  for (const std::int64_t threads : {64, 256, 4096}) {
    Tables<float> found(7);
    step_as_device(update, found.view(), keys.view(), grad.data(), 1, threads);
    EXPECT_EQ(found.values[0], wanted.values[0]) << threads;
    EXPECT_EQ(found.values[2], wanted.values[2]) << threads;
  }
}

/// Rows with so many copies that some start and end anywhere in a set of 64, in a mixed order.
std::vector<std::int64_t> hot_index(const std::vector<int>& copies) {
  std::vector<std::int64_t> index;
  for (std::size_t row = 0; row < copies.size(); ++row)
    index.insert(index.end(), static_cast<std::size_t>(copies[row]), static_cast<std::int64_t>(row));
  std::shuffle(index.begin(), index.end(), std::mt19937(5));
  return index;
}

/// SGD with a rate of 1 subtracts the sum of the gradients from the parameter.
void check_sums_of(const std::vector<int>& copies) {
  constexpr std::int64_t kColumns = 3;
  const auto index = hot_index(copies);
  const auto grad = gradients<double>(index.size(), kColumns);
  HostKeys keys(index, kRows, nullptr);
  Tables<double> found(kColumns);
  const Tables<double> before(kColumns);
  step_as_device(make_update<double>(SGDOptions{.lr = 1}), found.view(), keys.view(), grad.data(), 1, 64);
  std::vector<long double> sums(static_cast<std::size_t>(kRows * kColumns));
  for (std::size_t i = 0; i < grad.size(); ++i)
    sums[static_cast<std::size_t>(index[i / kColumns]) * kColumns + i % kColumns] += grad[i];
  for (std::size_t i = 0; i < sums.size(); ++i)
    ASSERT_NEAR(before.values[0][i] - found.values[0][i], static_cast<double>(sums[i]), 1e-10)
        << "element " << i;
}

TEST(CudaStepLane, RowsOfAnyNumberOfCopiesAreSummed) {
  for (const int first : {1, 2, 62, 63, 64, 65, 127, 128, 129, 200, 4000}) {
    for (const int second : {1, 63, 64, 65, 128, 191, 700})
      check_sums_of({first, second, 64, 1, second, first});
  }
}

TEST(CudaStepLane, UpTo127CopiesAreSummedAsOnTheHost) {
  if (isa_in_use() == "baseline")
    GTEST_SKIP() << "the host's step does not fuse here";
  const auto index = hot_index({127, 5, 100, 64, 1, 126});
  const auto grad = gradients<float>(index.size(), 5);
  HostKeys keys(index, kRows, nullptr);
  const auto update = make_update<float>(AdamOptions{});
  Tables<float> found(5);
  Tables<float> wanted(5);
  SparseStep<float> host(update, wanted.view());
  step_as_device(update, found.view(), keys.view(), grad.data(), 1, 64);
  host.run(index.data(), static_cast<std::int64_t>(index.size()), grad.data(), 1, serial_for);
  for (std::size_t k = 0; k <= kMostStates; ++k) EXPECT_TRUE(found.same(wanted, k)) << "table " << k;
}

/// Invalid indices are neither summed nor disturb others.
TEST(CudaStepLane, ManyBadIndicesAreLeftOut) {
  auto index = hot_index({100, 300});
  const auto grad = gradients<float>(index.size() + 200, 3);
  HostKeys good(index, kRows, nullptr);
  index.insert(index.end(), 200, -1);
  IndexErrors errors;
  HostKeys mixed(index, kRows, &errors);
  EXPECT_EQ(errors.count, 200U);
  const auto update = make_update<float>(AdamOptions{});
  Tables<float> found(3);
  Tables<float> wanted(3);
  step_as_device(update, found.view(), mixed.view(), grad.data(), 1, 64);
  step_as_device(update, wanted.view(), good.view(), grad.data(), 1, 64);
  for (std::size_t k = 0; k <= kMostStates; ++k) EXPECT_TRUE(found.same(wanted, k)) << "table " << k;
}

TEST(CudaStepLane, AllElementsAreSteppedOnceAsOnTheHost) {
  if (isa_in_use() == "baseline")
    GTEST_SKIP() << "the host's step does not fuse here";
  const auto grad = gradients<float>(kRows, 5);
  for (const auto& options : every_update()) {
    const auto update = make_update<float>(options);
    Tables<float> found(5);
    Tables<float> wanted(5);
    std::visit(
        [&](const auto& one) {
          for (std::int64_t thread = 0; thread < 32; ++thread)
            update_all_lane(found.view(), grad.data(), one, one.at(3), thread, 32);
        },
        update);
    update_all(update, wanted.view(), grad.data(), 3, serial_for);
    for (std::size_t k = 0; k <= kMostStates; ++k) ASSERT_TRUE(found.same(wanted, k)) << options.index();
  }
}

TEST(CudaStepLane, CopiesBeginWhereTheirRowDoes) {
  HostKeys keys(repeating_index(), kRows, nullptr);
  EXPECT_EQ(keys.distinct, 6);
  EXPECT_EQ(std::vector<std::int32_t>(keys.begins.begin(), keys.begins.begin() + 7),
            (std::vector<std::int32_t>{0, 2, 3, 5, 10, 12, 14}));
  EXPECT_EQ(std::vector<std::int32_t>(keys.positions.begin() + 5, keys.positions.begin() + 10),
            (std::vector<std::int32_t>{0, 2, 3, 10, 13}));
}

// Invalid indices share the low bits of valid ones: they must neither separate these nor be stepped.
TEST(CudaStepLane, BadIndicesAreLeftOutAndCounted) {
  const auto& good = repeating_index();
  std::vector<float> grad = gradients<float>(good.size(), 3);
  std::vector<float> all;
  std::vector<std::int64_t> mixed;
  for (std::size_t i = 0; i < good.size(); ++i) {
    mixed.push_back(good[i]);
    all.insert(all.end(), grad.begin() + static_cast<std::ptrdiff_t>(3 * i),
               grad.begin() + static_cast<std::ptrdiff_t>(3 * i + 3));
    if (i % 3 != 1) continue;
    mixed.push_back(i % 2 == 0 ? -good[i] - 1 : good[i] + 32);
    all.insert(all.end(), 3, 1e9F);
  }
  IndexErrors errors;
  HostKeys keys(mixed, kRows, &errors);
  EXPECT_EQ(errors.count, 5U);
  EXPECT_EQ(errors.first_position, 2U);
  EXPECT_EQ(errors.seen_rows, kRows);
  HostKeys good_keys(good, kRows, nullptr);
  const auto update = make_update<float>(AdamaxOptions{});
  Tables<float> found(3);
  Tables<float> wanted(3);
  step_as_device(update, found.view(), keys.view(), all.data(), 1, 64);
  step_as_device(update, wanted.view(), good_keys.view(), grad.data(), 1, 64);
  EXPECT_EQ(found.values[0], wanted.values[0]);
}

TEST(CudaStepLane, ARowHasAsManyLanesAsElementsUpToAWarp) {
  EXPECT_EQ(step_lane_bits(1), 0);
  EXPECT_EQ(step_lane_bits(2), 1);
  EXPECT_EQ(step_lane_bits(5), 3);
  EXPECT_EQ(step_lane_bits(32), 5);
  EXPECT_EQ(step_lane_bits(1000), 5);
}

}  // namespace
}  // namespace speedtorch::kernels

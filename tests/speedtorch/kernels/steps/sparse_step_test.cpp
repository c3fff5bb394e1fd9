// The fused step against plain loops: a std::map sums the gradients of each row, then the update's body runs
// on one element after the other. updates_test.cpp tests the updates themselves.

#include "speedtorch/kernels/steps/sparse_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string_view>
#include <vector>

#include "speedtorch/kernels/error.h"
#include "tests/speedtorch/kernels/counted_allocations.h"
#include "tests/speedtorch/kernels/forced_isa.h"
#include "tests/speedtorch/kernels/steps/every_update.h"
#include "tests/speedtorch/kernels/thread_pool.h"

namespace speedtorch::kernels {
namespace {

/// A parameter and three states; an update uses the first ones.
template <class T>
struct Tables {
  std::int64_t rows;
  std::int64_t columns;
  std::vector<T> values[1 + kMostStates];

  Tables(std::int64_t table_rows, std::int64_t row_columns, unsigned seed)
      : rows(table_rows), columns(row_columns) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<T> positive(T(0.1), T(1));
    for (auto& table : values) {
      table.resize(static_cast<std::size_t>(rows * columns));
      for (auto& value : table) value = positive(random);
    }
  }

  StepTables<T> views() {
    return {values[0].data(), {values[1].data(), values[2].data(), values[3].data()}, rows, columns};
  }
  bool operator==(const Tables& other) const {
    for (std::size_t k = 0; k < std::size(values); ++k) {
      if (std::memcmp(values[k].data(), other.values[k].data(), values[k].size() * sizeof(T)) != 0)
        return false;
    }
    return true;
  }
};

template <class T>
struct Batch {
  std::vector<std::int64_t> index;
  std::vector<T> grad;

  Batch(std::int64_t count, std::int64_t rows, std::int64_t columns, unsigned seed) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<std::int64_t> any(0, rows - 1);
    for (std::int64_t i = 0; i < count; ++i) index.push_back(any(random) % (1 + any(random)));
    std::normal_distribution<T> normal;
    for (std::int64_t i = 0; i < count * columns; ++i) grad.push_back(normal(random));
  }
  std::int64_t count() const { return static_cast<std::int64_t>(index.size()); }
};

/// `step_of(row)` returns the step number of a row.
template <class Math, class T, class StepOf>
void plain_step(const AnyUpdate<T>& any, Tables<T>& tables, const Batch<T>& batch, StepOf step_of) {
  const auto columns = static_cast<std::size_t>(tables.columns);
  std::map<std::int64_t, std::vector<T>> sums;
  for (std::size_t i = 0; i < batch.index.size(); ++i) {
    const T* const grad = batch.grad.data() + i * columns;
    auto& sum = sums[batch.index[i]];
    if (sum.empty()) {
      sum.assign(grad, grad + columns);
    } else {
      for (std::size_t j = 0; j < columns; ++j) sum[j] += grad[j];
    }
  }
  std::visit(
      [&](const auto& update) {
        for (const auto& [row, sum] : sums) {
          const auto now = update.at(step_of(row));
          for (std::size_t j = 0; j < columns; ++j) {
            const std::size_t at = static_cast<std::size_t>(row) * columns + j;
            T state[] = {tables.values[1][at], tables.values[2][at], tables.values[3][at]};
            update.template apply<Math>(now, tables.values[0][at], sum[j], state);
            for (std::size_t k = 0; k < update.kStates; ++k) tables.values[k + 1][at] = state[k];
          }
        }
      },
      any);
}

template <class T, class StepOf>
void plain_step(const AnyUpdate<T>& any, Tables<T>& tables, const Batch<T>& batch, StepOf step_of,
                std::string_view isa) {
  if (fuses(isa))
    plain_step<PlainMath<true>>(any, tables, batch, step_of);
  else
    plain_step<PlainMath<false>>(any, tables, batch, step_of);
}

class OnIsa : public ::testing::TestWithParam<std::string_view> {
 protected:
  template <class T>
  void check_every_update(std::int64_t columns) {
    for (const auto& options : every_update()) {
      const auto update = make_update<T>(options);
      Tables<T> found(40, columns, 1);
      Tables<T> wanted(40, columns, 1);
      SparseStep<T> step(update, found.views());
      for (int number = 1; number <= 2; ++number) {
        const Batch<T> batch(30, 40, columns, static_cast<unsigned>(number));
        step.run(batch.index.data(), batch.count(), batch.grad.data(), number, serial_for);
        plain_step(
            update, wanted, batch, [&](std::int64_t) { return number; }, GetParam());
      }
      ASSERT_TRUE(found == wanted) << "update " << options.index() << ", " << columns << " columns";
    }
  }

 private:
  ForcedIsa isa_{GetParam()};
};

TEST_P(OnIsa, EveryUpdateOfFloatsIsThePlainLoops) {
  for (const std::int64_t columns : {1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 128, 200, 511, 512, 513, 600})
    check_every_update<float>(columns);
}

TEST_P(OnIsa, EveryUpdateOfDoublesIsThePlainLoops) {
  for (const std::int64_t columns : {1, 5, 8, 9, 65, 600}) check_every_update<double>(columns);
}

TEST_P(OnIsa, EveryWidthIsThePlainLoops) {
  const auto update = make_update<float>(SparseAdamOptions{});
  for (std::int64_t columns = 1; columns <= 600; ++columns) {
    Tables<float> found(12, columns, 1);
    Tables<float> wanted(12, columns, 1);
    const Batch<float> batch(9, 12, columns, 2);
    SparseStep<float>(update, found.views())
        .run(batch.index.data(), batch.count(), batch.grad.data(), 1, serial_for);
    plain_step(
        update, wanted, batch, [](std::int64_t) { return 1; }, GetParam());
    ASSERT_TRUE(found == wanted) << columns << " columns";
  }
}

INSTANTIATE_TEST_SUITE_P(Every, OnIsa, ::testing::ValuesIn(supported_isas()),
                         [](const auto& isa) { return std::string(isa.param); });

TEST(SparseStep, IsTheSameOnAnyNumberOfThreads) {
  const std::int64_t rows = 3000;
  const std::int64_t columns = 48;
  const Batch<float> batch(20'000, rows, columns, 4);
  const std::vector<std::int32_t> narrow(batch.index.begin(), batch.index.end());
  const auto update = make_update<float>(AdamOptions{});
  Tables<float> wanted(rows, columns, 1);
  plain_step(
      update, wanted, batch, [](std::int64_t) { return 3; }, isa_in_use());
  for (std::int64_t threads = 1; threads <= 8; ++threads) {
    Tables<float> wide_found(rows, columns, 1);
    Tables<float> narrow_found(rows, columns, 1);
    SparseStep<float>(update, wide_found.views())
        .run(batch.index.data(), batch.count(), batch.grad.data(), 3, ThreadPool(threads));
    SparseStep<float>(update, narrow_found.views())
        .run(narrow.data(), batch.count(), batch.grad.data(), 3, ThreadPool(threads));
    EXPECT_TRUE(wide_found == wanted) << threads << " threads";
    EXPECT_TRUE(narrow_found == wanted) << threads << " threads, int32";
  }
}

// Counts that are far apart, so that they share slots of the cache.
template <class Count>
void check_row_steps(RowSteps (*steps_of)(std::vector<Count>&)) {
  const std::int64_t rows = 5000;
  const Batch<float> batch(4000, rows, 20, 4);
  std::vector<Count> counts(static_cast<std::size_t>(rows));
  for (std::size_t row = 0; row < counts.size(); ++row) counts[row] = static_cast<Count>(row * row % 30'011);
  const auto before = counts;
  const auto update = make_update<float>(AdamOptions{});
  Tables<float> found(rows, 20, 1);
  Tables<float> wanted(rows, 20, 1);
  SparseStep<float>(update, found.views())
      .run(batch.index.data(), batch.count(), batch.grad.data(), steps_of(counts), ThreadPool(3));
  plain_step(
      update, wanted, batch, [&](std::int64_t row) { return before[static_cast<std::size_t>(row)] + 1; },
      isa_in_use());
  EXPECT_TRUE(found == wanted);
  auto expected = before;
  for (const auto row : std::set<std::int64_t>(batch.index.begin(), batch.index.end()))
    ++expected[static_cast<std::size_t>(row)];
  EXPECT_EQ(counts, expected);
}

TEST(SparseStep, CountsTheStepsOfEachRow) {
  check_row_steps<std::int64_t>([](std::vector<std::int64_t>& counts) {
    return RowSteps{nullptr, counts.data()};
  });
  check_row_steps<std::int32_t>([](std::vector<std::int32_t>& counts) {
    return RowSteps{counts.data(), nullptr};
  });
}

// One object steps with another update and then with tables of another shape.
TEST(SparseStep, GoesOnWithAnotherUpdateAndOtherTables) {
  Tables<float> first(12, 5, 1);
  Tables<float> second(30, 7, 2);
  const Batch<float> of_first(9, 12, 5, 3);
  const Batch<float> of_second(20, 30, 7, 4);
  SparseStep<float> step(make_update<float>(AdamOptions{}), first.views());
  step.run(of_first.index.data(), of_first.count(), of_first.grad.data(), 1, serial_for);
  const auto other = make_update<float>(RMSpropOptions{.momentum = 0.5, .centered = true});
  step.set_update(other);
  step.set_tables(second.views());
  step.run(of_second.index.data(), of_second.count(), of_second.grad.data(), 1, serial_for);
  Tables<float> wanted(30, 7, 2);
  plain_step(
      other, wanted, of_second, [](std::int64_t) { return 1; }, isa_in_use());
  EXPECT_TRUE(second == wanted);
}

TEST(UpdateAll, IsThePlainLoopsOnAnyNumberOfThreads) {
  const std::int64_t rows = 4001;
  for (const std::int64_t columns : {1, 9}) {
    Batch<float> batch(rows, rows, columns, 5);
    for (std::int64_t row = 0; row < rows; ++row) batch.index[static_cast<std::size_t>(row)] = row;
    for (const auto& options : every_update()) {
      const auto update = make_update<float>(options);
      Tables<float> wanted(rows, columns, 1);
      plain_step(
          update, wanted, batch, [](std::int64_t) { return 2; }, isa_in_use());
      for (const std::int64_t threads : {1, 3}) {
        Tables<float> found(rows, columns, 1);
        update_all(update, found.views(), batch.grad.data(), 2, ThreadPool(threads));
        ASSERT_TRUE(found == wanted) << "update " << options.index() << ", " << threads << " threads";
      }
    }
  }
}

TEST(UpdateAll, NoElementsChangeNothing) {
  const auto update = make_update<double>(AdamOptions{});
  EXPECT_NO_THROW(
      update_all(update, StepTables<double>{}, static_cast<const double*>(nullptr), 1, serial_for));
}

TEST(SparseStep, AnEmptyIndexWritesNothing) {
  Tables<float> found(8, 5, 1);
  const Tables<float> before(8, 5, 1);
  SparseStep<float> step(make_update<float>(AdamOptions{}), found.views());
  step.run(static_cast<const std::int64_t*>(nullptr), 0, nullptr, 1, serial_for);
  EXPECT_TRUE(found == before);
}

TEST(SparseStep, ABadIndexWritesNothing) {
  Tables<float> found(8, 5, 1);
  const Tables<float> before(8, 5, 1);
  Batch<float> batch(6, 8, 5, 1);
  batch.index[4] = 8;
  std::vector<std::int64_t> counts(8, 2);
  SparseStep<float> step(make_update<float>(AdamOptions{}), found.views());
  EXPECT_THROW(step.run(batch.index.data(), 6, batch.grad.data(), 1, serial_for), IndexError);
  EXPECT_THROW(
      step.run(batch.index.data(), 6, batch.grad.data(), RowSteps{nullptr, counts.data()}, serial_for),
      IndexError);
  EXPECT_TRUE(found == before);
  EXPECT_EQ(counts, std::vector<std::int64_t>(8, 2));
}

TEST(SparseStep, AllocatesNothingOnceWarm) {
  Tables<float> tables(3000, 4, 1);
  const Batch<float> batch(20'000, 3000, 4, 1);
  SparseStep<float> step(make_update<float>(AdamOptions{}), tables.views());
  step.run(batch.index.data(), batch.count(), batch.grad.data(), 1, serial_for);
  const auto before = allocations();
  step.run(batch.index.data(), batch.count(), batch.grad.data(), 2, serial_for);
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace speedtorch::kernels

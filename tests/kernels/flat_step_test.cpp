// The fused pass against plain loops, element by element: unscale, clamp, clip, the body, round, zero. The
// bodies themselves are tested in updates_test.cpp.

#include "kernels/flat_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "kernels/half.h"
#include "tests/kernels/counted_allocations.h"
#include "tests/kernels/every_update.h"
#include "tests/kernels/forced_isa.h"
#include "tests/kernels/thread_pool.h"

namespace speedtorch::kernels {
namespace {

struct Aligned {
  void operator()(void* block) const { std::free(block); }
};

/// Buffers of a bucket, half precision among them.
template <class T>
class Bucket {
 public:
  explicit Bucket(std::int64_t n, Half half = Half::none) : n_(n), half_(half) {
    std::mt19937 random(7);
    std::uniform_real_distribution<T> positive(T(0.1), T(1));
    std::normal_distribution<T> normal;
    for (auto& values : values_) {
      values.reset(static_cast<T*>(std::aligned_alloc(64, static_cast<std::size_t>(n) * sizeof(T))));
      // The squares that are centered outweigh their means.
      const T least = values.get() == state(0) ? T(2) : T(0);
      std::generate_n(values.get(), n, [&] { return least + positive(random); });
    }
    for (std::int64_t k = 0; k < n; ++k) grad()[k] = normal(random);
    for (auto& bits : halves_) {
      bits.reset(static_cast<std::uint16_t*>(std::aligned_alloc(64, static_cast<std::size_t>(n) * 2)));
      std::transform(grad(), grad() + n, bits.get(),
                     [&](T value) { return narrow(static_cast<float>(value)); });
    }
  }

  std::uint16_t narrow(float value) const {
    return half_ == Half::float16 ? Float16::narrow(value) : Bfloat16::narrow(value);
  }
  T widen(std::uint16_t bits) const {
    return static_cast<T>(half_ == Half::float16 ? Float16::widen(bits) : Bfloat16::widen(bits));
  }

  FlatTables<T> tables() {
    FlatTables<T> tables{param(), grad(), {state(0), state(1), state(2)}, half_};
    if (half_ != Half::none) {
      tables.grad = nullptr;
      tables.half_param = halves_[0].get();
      tables.half_grad = halves_[1].get();
    }
    return tables;
  }
  T* param() { return values_[0].get(); }
  T* grad() { return values_[1].get(); }
  T* state(std::size_t k) { return values_[2 + k].get(); }
  std::uint16_t* half_param() { return halves_[0].get(); }
  std::uint16_t* half_grad() { return halves_[1].get(); }
  bool is_half() const { return half_ != Half::none; }
  std::int64_t size() const { return n_; }

  bool operator==(const Bucket& other) const {
    const auto same = [&](const auto& a, const auto& b) {
      return std::memcmp(a.get(), b.get(), static_cast<std::size_t>(n_) * sizeof(a[0])) == 0;
    };
    for (std::size_t k = 0; k < std::size(values_); ++k) {
      if (!same(values_[k], other.values_[k])) return false;
    }
    return same(halves_[0], other.halves_[0]) && same(halves_[1], other.halves_[1]);
  }

 private:
  std::int64_t n_;
  Half half_;
  std::unique_ptr<T[], Aligned> values_[2 + kMostStates];
  std::unique_ptr<std::uint16_t[], Aligned> halves_[2];
};

template <class T>
T changed(T grad, const GradientChange& change) {
  const T most = T(change.max_value);
  T value = grad * T(change.inv_scale);
  if (value > most) value = most;
  if (value < -most) value = -most;
  return value * T(change.coefficient);
}

/// Element k by an update of which `now` is what depends on the step.
template <class Math, class Update, class T>
void plain_element(Bucket<T>& bucket, const Update& update, const typename Update::Now& now,
                   const GradientChange& change, std::int64_t k) {
  const T grad = bucket.is_half() ? bucket.widen(bucket.half_grad()[k]) : bucket.grad()[k];
  T state[] = {bucket.state(0)[k], bucket.state(1)[k], bucket.state(2)[k]};
  update.template apply<Math>(now, bucket.param()[k], changed(grad, change), state);
  for (std::size_t s = 0; s < update.kStates; ++s) bucket.state(s)[k] = state[s];
  if (bucket.is_half()) bucket.half_param()[k] = bucket.narrow(static_cast<float>(bucket.param()[k]));
}

template <class T>
void plain_step(Bucket<T>& bucket, const std::vector<FlatRun<T>>& runs, const GradientChange& change,
                bool zero) {
  const bool fused = fuses(isa_in_use());
  for (const auto& run : runs) {
    std::visit(
        [&](const auto& update) {
          const auto now = update.at(run.step);
          for (std::int64_t k = run.begin; k < run.end; ++k) {
            if (fused)
              plain_element<PlainMath<true>>(bucket, update, now, change, k);
            else
              plain_element<PlainMath<false>>(bucket, update, now, change, k);
          }
        },
        *run.update);
    if (!zero) continue;
    if (bucket.is_half())
      std::fill(bucket.half_grad() + run.begin, bucket.half_grad() + run.end, std::uint16_t{0});
    else
      std::fill(bucket.grad() + run.begin, bucket.grad() + run.end, T(0));
  }
}

const GradientChange kChanged{.inv_scale = 0.125, .max_value = 0.2, .coefficient = 0.37};

class FlatStepOnIsa : public ::testing::TestWithParam<std::string_view> {
 protected:
  /// Two runs of different steps, with a gap, over several tiles.
  template <class T>
  static void check(Half half, const GradientChange& change, bool zero) {
    for (const auto& options : every_update()) {
      const auto update = make_update<T>(options);
      const std::vector<FlatRun<T>> runs = {{64, 192, 1, &update}, {256, 2624, 7, &update}};
      Bucket<T> found(2688, half);
      Bucket<T> wanted(2688, half);
      flat_step<T>(found.tables(), runs, change, zero, serial_for);
      plain_step<T>(wanted, runs, change, zero);
      ASSERT_TRUE(found == wanted) << "update " << options.index();
    }
  }

 private:
  ForcedIsa isa_{GetParam()};
};

TEST_P(FlatStepOnIsa, EveryUpdateIsThePlainLoops) {
  check<float>(Half::none, {}, false);
  check<double>(Half::none, {}, false);
}

TEST_P(FlatStepOnIsa, UnscalesClipsAndZerosInTheSamePass) {
  check<float>(Half::none, kChanged, true);
  check<double>(Half::none, kChanged, true);
}

TEST_P(FlatStepOnIsa, StepsHalfPrecisionByItsMasters) {
  for (const auto half : {Half::bfloat16, Half::float16}) {
    check<float>(half, {}, false);
    check<float>(half, kChanged, true);
  }
}

TEST_P(FlatStepOnIsa, SumsSquaresAsALongLoopDoes) {
  for (const std::int64_t n : {64, 1024, 1088, 50'048}) {
    Bucket<float> bucket(n);
    std::vector<double> sums(static_cast<std::size_t>(flat_sums(n)));
    const auto tables = bucket.tables();
    long double wanted = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      const long double value = changed(bucket.grad()[k], {.inv_scale = 0.125, .max_value = 0.2});
      wanted += value * value;
    }
    const double found = flat_square_sum(tables, n, kChanged, sums.data(), serial_for);
    EXPECT_NEAR(found, static_cast<double>(wanted), 1e-13 * static_cast<double>(wanted)) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, FlatStepOnIsa, ::testing::ValuesIn(supported_isas()),
                         [](const auto& isa) { return std::string(isa.param); });

TEST(FlatStep, IsTheSameOnAnyNumberOfThreads) {
  const std::int64_t n = 300'032;
  const auto update = make_update<float>(AdamOptions{});
  const auto other = make_update<float>(AdamOptions{.lr = 0.1});
  const std::vector<FlatRun<float>> runs = {
      {0, 64, 2, &update}, {128, 70'016, 1, &other}, {70'016, n, 3, &update}};
  Bucket<float> wanted(n);
  plain_step(wanted, runs, kChanged, true);
  for (std::int64_t threads = 1; threads <= 8; ++threads) {
    Bucket<float> found(n);
    flat_step<float>(found.tables(), runs, kChanged, true, ThreadPool(threads));
    EXPECT_TRUE(found == wanted) << threads << " threads";
  }
}

TEST(FlatStep, SumsTheSameOnAnyNumberOfThreadsAndAnyInstructionSet) {
  const std::int64_t n = 600'064;
  Bucket<float> bucket(n);
  std::vector<double> sums(static_cast<std::size_t>(flat_sums(n)));
  const double wanted = flat_square_sum(bucket.tables(), n, {}, sums.data(), serial_for);
  for (const auto isa : supported_isas()) {
    const ForcedIsa forced(isa);
    for (std::int64_t threads = 1; threads <= 5; ++threads)
      EXPECT_EQ(flat_square_sum(bucket.tables(), n, {}, sums.data(), ThreadPool(threads)), wanted) << isa;
  }
}

TEST(FlatStep, SumsAreNotFiniteWhereAGradientIsNot) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Bucket<float> bucket(4096);
    bucket.grad()[4000] = bad;
    std::vector<double> sums(1);
    EXPECT_FALSE(std::isfinite(flat_square_sum(bucket.tables(), 4096, {}, sums.data(), serial_for))) << bad;
  }
  Bucket<float> huge(4096);
  huge.grad()[1] = 3e38F;
  std::vector<double> sums(1);
  EXPECT_TRUE(std::isfinite(flat_square_sum(huge.tables(), 4096, {}, sums.data(), serial_for)));
}

TEST(FlatStep, ANotANumberStaysOneThroughTheClamp) {
  const auto update = make_update<float>(SGDOptions{.lr = 1});
  const std::vector<FlatRun<float>> runs = {{0, 64, 1, &update}};
  Bucket<float> bucket(64);
  bucket.grad()[5] = NAN;
  flat_step<float>(bucket.tables(), runs, {.max_value = 0.5}, false, serial_for);
  EXPECT_TRUE(std::isnan(bucket.param()[5]));
  EXPECT_FALSE(std::isnan(bucket.param()[6]));
}

TEST(FlatStep, OfNoRunsWritesNothing) {
  Bucket<float> found(64);
  const Bucket<float> before(64);
  flat_step<float>(found.tables(), {}, {}, true, serial_for);
  EXPECT_TRUE(found == before);
}

TEST(FlatStep, AllocatesNothing) {
  const auto update = make_update<float>(AdamOptions{});
  const std::vector<FlatRun<float>> runs = {{0, 64'000, 1, &update}};
  Bucket<float> bucket(64'000);
  std::vector<double> sums(static_cast<std::size_t>(flat_sums(64'000)));
  const auto before = allocations();
  flat_step<float>(bucket.tables(), runs, {}, true, serial_for);
  flat_square_sum(bucket.tables(), 64'000, {}, sums.data(), serial_for);
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace speedtorch::kernels

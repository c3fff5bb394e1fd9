/// Buffers of a bucket, and a step on them by plain loops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <variant>
#include <vector>

#include "speedtorch/kernels/half.h"
#include "speedtorch/kernels/isa.h"
#include "speedtorch/kernels/steps/flat_tables.h"
#include "tests/speedtorch/kernels/steps/every_update.h"

namespace speedtorch::kernels {

/// Frees what aligned_alloc() gave.
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

/// What the update is given of a gradient.
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

/// The runs by plain loops, in the arithmetic of the instruction set in use.
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

}  // namespace speedtorch::kernels

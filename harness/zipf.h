/// Ranks by Zipf's law.
#pragma once

#include <cstdint>

#include "harness/random.h"

namespace stbench::harness {

/// Draws rank k of 1 … count with a probability in exact proportion to k^-exponent, in constant time and
/// memory: rejection-inversion (W. Hörmann, G. Derflinger, ACM TOMACS 6(3), 1996).
class Zipf {
 public:
  /// @param exponent above 0
  Zipf(std::int64_t count, double exponent);

  [[nodiscard]] std::int64_t operator()(Random& random) const;

 private:
  [[nodiscard]] double weight(double x) const;    ///< x^-exponent
  [[nodiscard]] double integral(double x) const;  ///< of the weight, from 1 to x
  [[nodiscard]] double integral_inverse(double y) const;

  double count_, exponent_;
  double upper_, lower_, sure_;
};

}  // namespace stbench::harness

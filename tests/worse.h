/// The worst of many differences, in tests.
#pragma once

#include <cmath>

namespace stbench::test {

/// The larger of two differences; NaN if one of them is. std::max(x, NaN) is x, so that a result of NaN would pass.
inline double worse(double worst, double difference) {
  return std::isnan(worst) || worst > difference ? worst : difference;
}

}  // namespace stbench::test

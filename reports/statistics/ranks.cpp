#include "reports/statistics/ranks.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <stdexcept>

#include "reports/statistics/probability.h"

namespace stbench::reports {
namespace {

constexpr std::size_t kMostExact = 50, kMostExactSmaller = 20;

std::vector<double> checked(std::span<const double> set) {
  if (set.empty()) throw std::invalid_argument("an empty set has no ranks");
  std::vector<double> sorted(set.begin(), set.end());
  if (std::ranges::any_of(sorted, [](double x) { return std::isnan(x); }))
    throw std::invalid_argument("a NaN has no rank");
  std::ranges::sort(sorted);
  return sorted;
}

bool small_enough(std::size_t n, std::size_t m) {
  return n + m <= kMostExact && std::min(n, m) <= kMostExactSmaller;
}

/// The numbers of both sets in order, with twice their midranks, which are whole.
struct Ranked {
  std::vector<std::size_t> twice_ranks;  ///< of the pooled numbers, ascending
  std::size_t twice_sum = 0;             ///< of the second set
  double tie_term = 0;                   ///< sum of t^3 - t over groups of t equal numbers
};

Ranked ranked(const std::vector<double>& first, const std::vector<double>& second) {
  std::vector<double> pooled = first;
  pooled.insert(pooled.end(), second.begin(), second.end());
  std::sort(pooled.begin(), pooled.end());
  Ranked result;
  for (std::size_t begin = 0, end = 0; begin < pooled.size(); begin = end) {
    while (end < pooled.size() && pooled[end] == pooled[begin]) ++end;
    const auto [from, to] = std::equal_range(second.begin(), second.end(), pooled[begin]);
    const std::size_t twice_rank = begin + 1 + end;
    result.twice_sum += twice_rank * static_cast<std::size_t>(to - from);
    result.twice_ranks.insert(result.twice_ranks.end(), end - begin, twice_rank);
    const auto ties = static_cast<double>(end - begin);
    result.tie_term += ties * ties * ties - ties;
  }
  return result;
}

/// How probable each sum of `size` ranks is, where all choices are equally so.
std::vector<double> sum_law(const std::vector<std::size_t>& ranks, std::size_t size) {
  const std::size_t largest =
      std::accumulate(ranks.end() - static_cast<std::ptrdiff_t>(size), ranks.end(), std::size_t{0});
  std::vector<std::vector<double>> ways(size + 1, std::vector<double>(largest + 1, 0.0));
  ways[0][0] = 1;
  for (const std::size_t rank : ranks) {
    for (std::size_t k = size; k >= 1; --k) {
      for (std::size_t sum = largest; sum >= rank; --sum) ways[k][sum] += ways[k - 1][sum - rank];
    }
  }
  const double all = std::accumulate(ways[size].begin(), ways[size].end(), 0.0);
  for (double& way : ways[size]) way /= all;
  return ways[size];
}

/// The two-sided p of a sum, by the probability of each sum.
double exact_p(const std::vector<double>& law, std::size_t sum) {
  const auto at = law.begin() + static_cast<std::ptrdiff_t>(sum);
  const double below = std::accumulate(law.begin(), at + 1, 0.0), above = std::accumulate(at, law.end(), 0.0);
  return std::min(1.0, 2 * std::min(below, above));
}

double normal_p(const Ranked& ranks, double u, double n, double m) {
  const double all = n + m;
  const double variance = n * m / 12 * (all + 1 - ranks.tie_term / (all * (all - 1)));
  if (!(variance > 0)) return 1;
  const double away = std::abs(u - n * m / 2) - 0.5;  // the sum is whole: half a step of it is taken off
  return away <= 0 ? 1 : normal_two_sided(away / std::sqrt(variance));
}

/// How many of the differences second - first are at most x. Both ascend.
std::size_t differences_up_to(double x, const std::vector<double>& first, const std::vector<double>& second) {
  std::size_t count = 0, j = 0;
  for (const double a : first) {
    while (j < second.size() && second[j] - a <= x) ++j;
    count += j;
  }
  return count;
}

/// The k-th smallest (from 1) of the differences, without writing all of them down: a million samples per
/// side have 10^12.
double difference(std::size_t k, const std::vector<double>& first, const std::vector<double>& second) {
  double low = second.front() - first.back(), high = second.back() - first.front();
  if (differences_up_to(low, first, second) >= k) return low;
  while (true) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high || high - low < 1e-15 * std::max(std::abs(low), std::abs(high)))
      break;
    (differences_up_to(middle, first, second) >= k ? high : low) = middle;
  }
  return high;
}

/// The rank of the interval's lower end among the differences: the largest k with 2 P(U < k) <= 1 - coverage.
std::size_t interval_start(std::size_t n, std::size_t m, double coverage) {
  const double tail = (1 - coverage) / 2;
  if (!small_enough(n, m)) {
    const auto nd = static_cast<double>(n), md = static_cast<double>(m);
    const double width = student_quantile(1 - coverage, INFINITY) * std::sqrt(nd * md * (nd + md + 1) / 12);
    return static_cast<std::size_t>(std::max(0.0, std::floor(nd * md / 2 - width + 0.5)));
  }
  std::vector<std::size_t> ranks(n + m);
  std::iota(ranks.begin(), ranks.end(), std::size_t{1});
  const std::size_t smaller = std::min(n, m);
  const std::vector<double> law = sum_law(ranks, smaller);
  double below = 0;
  for (std::size_t u = 0;; ++u) {
    below += law[smaller * (smaller + 1) / 2 + u];
    if (below > tail) return u;
  }
}

}  // namespace

RankTest mann_whitney(std::span<const double> first, std::span<const double> second) {
  const std::vector<double> a = checked(first), b = checked(second);
  const Ranked ranks = ranked(a, b);
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  RankTest test;
  test.u = static_cast<double>(ranks.twice_sum) / 2 - m * (m + 1) / 2;
  test.exact = small_enough(a.size(), b.size());
  test.p = test.exact ? exact_p(sum_law(ranks.twice_ranks, b.size()), ranks.twice_sum)
                      : normal_p(ranks, test.u, n, m);
  return test;
}

double least_p(std::size_t first, std::size_t second) {
  double choices = 1;
  for (std::size_t k = 1; k <= std::min(first, second); ++k) {
    choices *= static_cast<double>(std::max(first, second) + k) / static_cast<double>(k);
  }
  return std::min(1.0, 2 / choices);
}

Shift hodges_lehmann(std::span<const double> first, std::span<const double> second, double coverage) {
  const std::vector<double> a = checked(first), b = checked(second);
  const std::size_t pairs = a.size() * b.size();
  Shift shift;
  shift.estimate = (difference((pairs + 1) / 2, a, b) + difference(pairs / 2 + 1, a, b)) / 2;
  if (const std::size_t k = interval_start(a.size(), b.size(), coverage); k > 0) {
    shift.interval = Interval{difference(k, a, b), difference(pairs + 1 - k, a, b)};
  }
  return shift;
}

RankTest signed_ranks(std::span<const double> differences) {
  std::vector<double> sizes = checked(differences);
  std::erase(sizes, 0.0);
  std::ranges::sort(sizes, {}, [](double x) { return std::abs(x); });
  std::vector<std::size_t> twice_ranks;  // midranks, as above
  RankTest test;
  double squares = 0;
  for (std::size_t begin = 0, end = 0; begin < sizes.size(); begin = end) {
    while (end < sizes.size() && std::abs(sizes[end]) == std::abs(sizes[begin])) ++end;
    for (std::size_t i = begin; i < end; ++i) {
      twice_ranks.push_back(begin + 1 + end);
      const double rank = static_cast<double>(twice_ranks.back()) / 2;
      squares += rank * rank;
      if (sizes[i] > 0) test.u += rank;
    }
  }
  const double sum = static_cast<double>(std::accumulate(twice_ranks.begin(), twice_ranks.end(), 0UL)) / 2;
  test.exact = sizes.size() <= kMostExact;
  if (!test.exact) {
    const double away = std::abs(test.u - sum / 2) - 0.5;
    test.p = away <= 0 ? 1 : normal_two_sided(away / std::sqrt(squares / 4));
    return test;
  }
  // How probable each sum is, where each rank is in it or not.
  std::vector<double> law(static_cast<std::size_t>(2 * sum) + 1, 0.0);
  law[0] = 1;
  for (const std::size_t rank : twice_ranks) {
    for (std::size_t at = law.size(); at-- > 0;) law[at] = (law[at] + (at >= rank ? law[at - rank] : 0)) / 2;
  }
  test.p = exact_p(law, static_cast<std::size_t>(2 * test.u));
  return test;
}

double least_p_of_pairs(std::size_t pairs) {
  return std::min(1.0, 2 * std::exp2(-static_cast<double>(pairs)));
}

double median_of_walsh_averages(std::span<const double> differences) {
  const std::vector<double> sorted = checked(differences);
  std::vector<double> means;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = i; j < sorted.size(); ++j) means.push_back((sorted[i] + sorted[j]) / 2);
  }
  return median(means);
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return p[i]; });
  std::vector<double> corrected(p.size());
  double least = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    least = std::max(least, std::min(1.0, static_cast<double>(p.size() - i) * p[order[i]]));
    corrected[order[i]] = least;
  }
  return corrected;
}

}  // namespace stbench::reports

#include "skip_gram.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>

namespace word2vec {

at::Tensor loss_of(const at::Tensor& centers, const at::Tensor& contexts) {
  const auto scores = at::bmm(contexts, centers.unsqueeze(2)).squeeze(2);
  const auto negatives = scores.size(1) - 1;
  const auto right = at::cat({scores.narrow(1, 0, 1), scores.narrow(1, 1, negatives).neg()}, 1);
  return at::log_sigmoid(right).sum().neg();
}

double zero_loss(std::int64_t negatives) { return static_cast<double>(1 + negatives) * std::log(2.0); }

std::vector<std::int64_t> nearest(const at::Tensor& vectors, std::int64_t word, std::int64_t count,
                                  std::int64_t among) {
  const auto few = vectors.narrow(0, 0, std::min(among, vectors.size(0)));
  const auto lengths = few.norm(2, 1).clamp_min(1e-12);
  const auto angles = at::matmul(few, vectors.select(0, word)).div(lengths);
  const auto wanted = std::min(count + 1, few.size(0));
  const auto best = std::get<1>(at::topk(angles, wanted)).contiguous();
  std::vector<std::int64_t> words;
  for (std::int64_t i = 0; i < wanted; ++i) {
    const auto found = best.const_data_ptr<std::int64_t>()[i];
    if (found != word && std::ssize(words) < count) words.push_back(found);
  }
  return words;
}

}  // namespace word2vec

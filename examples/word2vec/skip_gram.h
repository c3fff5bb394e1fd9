/// Skip-gram with negative sampling (Mikolov et al. 2013): its loss, and what is read off the vectors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace word2vec {

/// The loss of a batch, summed over its pairs: -log sigmoid of the score of each neighbour and of minus that
/// of each word that is none. Differentiable.
/// @param centers [pairs, dim] @param contexts [pairs, 1 + negatives, dim]
at::Tensor loss_of(const at::Tensor& centers, const at::Tensor& contexts);

/// The mean loss of a pair where every score is zero: who learned nothing.
double zero_loss(std::int64_t negatives);

/// The words that are nearest to one by the angle between vectors, nearest first, itself left out.
/// @param vectors [words, dim] @param among only the first so many words
std::vector<std::int64_t> nearest(const at::Tensor& vectors, std::int64_t word, std::int64_t count,
                                  std::int64_t among);

}  // namespace word2vec

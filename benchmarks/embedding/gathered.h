/// The rows of a batch as small leafs that require gradients.
#pragma once

#include <ATen/ops/empty.h>

#include "benchmarks/embedding/fixture.h"
#include "examples/word2vec/skip_gram.h"
#include "speedtorch/rows/rows.h"

namespace stbench {

struct GatheredPairs {
  at::Tensor centers, contexts;  ///< one row per entry of the index

  GatheredPairs(const EmbeddingFixture& fixture, const at::Tensor& center_rows,
                const at::Tensor& context_rows)
      : centers(gathered(fixture.centers.table, center_rows).set_requires_grad(true)),
        contexts(gathered(fixture.contexts.table, context_rows).set_requires_grad(true)) {}

  /// The backward pass of a batch with these rows, in order.
  void backward(at::IntArrayRef pairs) const {
    word2vec::loss_of(centers, contexts.view({pairs[0], pairs[1], centers.size(1)})).backward();
  }

  static at::Tensor gathered(const at::Tensor& table, const at::Tensor& rows) {
    auto small = at::empty({rows.numel(), table.size(1)}, table.options());
    speedtorch::gather_rows(table, rows, small);
    return small;
  }
};

}  // namespace stbench

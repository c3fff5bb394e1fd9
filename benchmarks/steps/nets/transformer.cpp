#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "benchmarks/steps/net.h"

namespace stbench {
namespace {

constexpr std::int64_t tokens = 32, width = 64, heads = 4;

/// [samples, tokens, width] as [samples, heads, tokens, width of a head]
at::Tensor by_head(const at::Tensor& all) {
  return all.view({-1, tokens, heads, width / heads}).transpose(1, 2);
}

at::Tensor attended(const std::vector<at::Tensor>& p, const at::Tensor& x) {
  const auto parts = at::linear(at::layer_norm(x, {width}, p[0], p[1]), p[2], p[3]).chunk(3, -1);
  const auto seen = at::scaled_dot_product_attention(
      by_head(parts[0].contiguous()), by_head(parts[1].contiguous()), by_head(parts[2].contiguous()));
  return x.add(at::linear(seen.transpose(1, 2).reshape({-1, tokens, width}), p[4], p[5]));
}

const RegisterNet registration{{
    .name = "transformer",
    .summary = "32 tokens of 64 numbers: attention of 4 heads, two layers of 256, their mean",
    .sample = {tokens, width},
    .parameters = {{{width}, 1},
                   {{width}},
                   {{3 * width, width}},
                   {{3 * width}},
                   {{width, width}},
                   {{width}},
                   {{width}, 1},
                   {{width}},
                   {{4 * width, width}},
                   {{4 * width}},
                   {{width, 4 * width}},
                   {{width}},
                   {{10, width}},
                   {{10}}},
    .fits = 64,
    .activity = 60'000,
    .forward =
        [](const std::vector<at::Tensor>& p, const at::Tensor& samples) {
          const auto x = attended(p, samples);
          const auto wide = at::gelu(at::linear(at::layer_norm(x, {width}, p[6], p[7]), p[8], p[9]));
          return at::linear(x.add(at::linear(wide, p[10], p[11])).mean(1), p[12], p[13]);
        },
}};

}  // namespace
}  // namespace stbench

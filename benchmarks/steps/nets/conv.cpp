#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>

#include "benchmarks/steps/net.h"

namespace stbench {
namespace {

/// The net of examples/digits on images of twice the side, but smooth (net.h).
const RegisterNet registration{{
    .name = "conv",
    .summary = "16x16 images, convolutions of 16 and 32 channels, pooling, one linear layer",
    .sample = {1, 16, 16},
    .parameters = {{{16, 1, 3, 3}}, {{16}}, {{32, 16, 3, 3}}, {{32}}, {{10, 2048}}, {{10}}},
    .fits = 128,
    .activity = 40'000,
    .forward =
        [](const std::vector<at::Tensor>& p, const at::Tensor& samples) {
          const auto first = at::gelu(at::conv2d(samples, p[0], p[1], 1, 1));
          const auto second = at::gelu(at::conv2d(first, p[2], p[3], 1, 1));
          return at::linear(at::avg_pool2d(second, 2).flatten(1), p[4], p[5]);
        },
}};

}  // namespace
}  // namespace stbench

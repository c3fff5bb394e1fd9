#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>

#include "benchmarks/steps/net.h"

namespace stbench {
namespace {

const RegisterNet registration{{
    .name = "mlp",
    .summary = "256 numbers, two hidden layers of 256",
    .sample = {256},
    .parameters = {{{256, 256}}, {{256}}, {{256, 256}}, {{256}}, {{10, 256}}, {{10}}},
    .fits = 1024,
    .activity = 1200,
    .forward =
        [](const std::vector<at::Tensor>& p, const at::Tensor& samples) {
          const auto first = at::gelu(at::linear(samples, p[0], p[1]));
          return at::linear(at::gelu(at::linear(first, p[2], p[3])), p[4], p[5]);
        },
}};

}  // namespace
}  // namespace stbench

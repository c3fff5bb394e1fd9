#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>

#include "benchmarks/steps/net.h"

namespace stbench {
namespace {

/// So small that the fixed costs of a step are a large part of it.
const RegisterNet registration{{
    .name = "small",
    .summary = "20 numbers, one hidden layer of 64, two classes",
    .sample = {20},
    .classes = 2,
    .parameters = {{{64, 20}}, {{64}}, {{2, 64}}, {{2}}},
    .fits = 4096,
    .activity = 300,
    .forward =
        [](const std::vector<at::Tensor>& p, const at::Tensor& samples) {
          return at::linear(at::gelu(at::linear(samples, p[0], p[1])), p[2], p[3]);
        },
}};

}  // namespace
}  // namespace stbench

#include <ATen/ops/gather.h>

#include "benchmarks/method.h"

namespace stbench {
namespace {

/// The row numbers as an index of every element, without a copy.
at::Tensor of_every_element(const at::Tensor& index, const at::Tensor& rows) {
  return index.unsqueeze(1).expand(rows.sizes());
}

/// LibTorch's operations for single elements, given whole rows.
const RegisterMethod registration{{
    .name = "gather",
    .summary = "peer: LibTorch's gather(out=) and scatter_, the index expanded to whole rows",
    .role = harness::Role::peer,
    .asked_only = true,
    .where = "every cell with --index-dtype int64",
    .refuses =
        [](const reports::Identity& id) {
          return std::string(id.index_dtype == "int32" ? "scatter_ takes int64 indices only; use --index-dtype int64"
                                                       : "");
        },
    .to =
        [](Arena& arena, int set) {
          at::gather_out(arena.gathered(), arena.table(), 0, of_every_element(arena.index(set), arena.gathered()));
          arena.upload();
        },
    .from =
        [](Arena& arena, int set) {
          const auto& values = arena.download(set);
          arena.table().scatter_(0, of_every_element(arena.index(set), values), values);
        },
}};

}  // namespace
}  // namespace stbench

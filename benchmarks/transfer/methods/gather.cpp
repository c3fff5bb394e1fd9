#include <ATen/ops/gather.h>

#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// The row numbers as an index of every element, without a copy.
at::Tensor of_every_element(const at::Tensor& index, const at::Tensor& rows) {
  return index.unsqueeze(1).expand(rows.sizes());
}

/// With such an index scatter_ adds floating rows to zero, which changes a NaN's bits and the sign of -0; and
/// LibTorch 2.11 takes the index for int64 where it is not, without a word.
std::string refused(const reports::Identity& id) {
  if (id.index_dtype == "int32")
    return "LibTorch's gather returns wrong rows for expanded int32 indices; use --index-dtype int64";
  if (id.direction == "to" || !at::isFloatingType(shape_of(id).dtype)) return {};
  return "scatter_ does not keep the bits of floating rows, and bits are compared; use --row-bytes for such "
         "rows";
}

/// LibTorch's operations for single elements, given whole rows.
const RegisterMethod registration{{
    .name = "gather",
    .summary = "peer: LibTorch's gather(out=) and scatter_, the index expanded to whole rows",
    .role = harness::Role::peer,
    .asked_only = true,
    .where = "every cell",
    .skip_reason = refused,
    .to =
        [](Arena& arena, int set) {
          at::gather_out(arena.gathered(), arena.table(), 0,
                         of_every_element(arena.index(set), arena.gathered()));
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

#include <ATen/ops/gather.h>

#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// Expands the row numbers to an index of every element, without a copy.
at::Tensor of_every_element(const at::Tensor& index, const at::Tensor& rows) {
  return index.unsqueeze(1).expand(rows.sizes());
}

/// With such an index scatter_ adds floating rows to zero, which changes a NaN's bits and the sign of -0.
/// LibTorch 2.11 reads every index as int64, also an int32 one, without an error.
std::string gather_skip_reason(const TransferCase& one) {
  if (one.index_dtype == at::kInt)
    return "LibTorch's gather returns wrong rows for expanded int32 indices; use --index-dtype int64";
  if (!one.writes() || !at::isFloatingType(one.shape().dtype)) return {};
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
    .skip_reason = gather_skip_reason,
    .to =
        [](Operands& operands, int set) {
          at::gather_out(operands.gathered(), operands.table(), 0,
                         of_every_element(operands.index(set), operands.gathered()));
          operands.upload();
        },
    .from =
        [](Operands& operands, int set) {
          const auto& values = operands.download(set);
          operands.table().scatter_(0, of_every_element(operands.index(set), values), values);
        },
}};

}  // namespace
}  // namespace stbench

#include "benchmarks/transfer/fixture.h"

#include <string>
#include <utility>

namespace stbench {

TransferFixture::TransferFixture(const TransferCase& cell, std::shared_ptr<speedtorch::Memory> memory,
                                 std::shared_ptr<const IndexSets> indices, std::uint64_t seed)
    : operands(cell, std::move(memory), *indices), verifier(operands, cell.shape(), indices, seed) {
  const auto count = cell.bidirectional() ? 2 : cell.callers;
  const auto batch = operands.count();
  for (std::int64_t k = 0; count > 1 && k < count; ++k) {
    const auto first = k * batch / count;
    slices.push_back(std::make_unique<Operands>(operands, first, (k + 1) * batch / count - first));
  }
}

void TransferFixture::forget_results() {
  operands.forget_result();
  for (auto& slice : slices) slice->forget_result();
}

void TransferFixture::poison_model() {
  forget_results();
  poison(operands.model());
}

void TransferFixture::prepare_values(Pattern pattern, int set, std::uint64_t generation) {
  forget_results();
  verifier.prepare_values(pattern, set, generation);
}

harness::Check TransferFixture::check_model(Pattern pattern, int set, std::uint64_t generation,
                                            Equality equality) const {
  if (slices.empty()) return verifier.check_model(operands, pattern, set, generation, equality);
  harness::Check check;
  for (std::size_t k = 0; k < slices.size(); ++k) {
    auto found = verifier.check_model(*slices[k], pattern, set, generation, equality);
    if (!found.first.empty()) found.first = "caller " + std::to_string(k) + ": " + found.first;
    merge(check, found);
  }
  return check;
}

}  // namespace stbench

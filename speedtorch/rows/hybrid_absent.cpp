/// The hybrid gather of a build without CUDA: it says what is missing.
#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/rows/hybrid.h"

namespace speedtorch {

class HybridGather::Ways {
 public:
  HybridRates rates;
};

HybridGather::HybridGather(const at::Tensor&, const at::Tensor&, std::int64_t, std::optional<double>) {
  throw PlacementError(cuda_refusal("the hybrid gather"));
}

HybridGather::~HybridGather() = default;

void HybridGather::gather(const at::Tensor&, const at::Tensor&, at::Tensor&) {}

const HybridRates& HybridGather::rates() const { return ways_->rates; }

double HybridGather::share() const { return 0; }

}  // namespace speedtorch

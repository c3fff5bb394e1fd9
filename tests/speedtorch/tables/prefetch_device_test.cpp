/// Prefetchers whose rows or models are on GPUs. Each batch must have the rows that were current when it was
/// due.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <string>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/tables/prefetch.h"
#include "speedtorch/tables/table.h"
#include "tests/speedtorch/gpu_fixture.h"

namespace speedtorch {
namespace {

constexpr std::int64_t kTableRows = 500, kTableColumns = 16, kBatch = 40;
constexpr int kBatches = 40;

/// Two batches in flight. Before each is taken, the GPU writes rows of the batches to come.
void expect_current_rows(const Table& table, at::Device model, at::Device values_on) {
  auto whole = host_copy(table);
  Prefetcher prefetcher(table, model);
  std::vector<at::Tensor> indices;
  for (int batch = 0; batch < kBatches; ++batch)
    indices.push_back(at::randint(kTableRows, {kBatch}, at::kLong));
  int submitted = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    for (; submitted < std::min(batch + 2, kBatches); ++submitted)
      prefetcher.submit(indices[static_cast<std::size_t>(submitted)]);
    const auto& next = indices[static_cast<std::size_t>(std::min(batch + 1, kBatches - 1))];
    const auto written = at::cat({next.slice(0, 0, 10), at::randint(kTableRows, {5}, at::kLong)});
    const auto values = at::randn({written.numel(), kTableColumns});
    prefetcher.scatter(written, values.to(values_on), Duplicates::last);
    scatter_rows(whole, written, values, Duplicates::last);
    const auto rows = prefetcher.take();
    EXPECT_EQ(rows.device(), model);
    ASSERT_TRUE(at::equal(rows.cpu(), whole.index_select(0, indices[static_cast<std::size_t>(batch)])))
        << "batch " << batch;
  }
}

Table table_in(Placement placement, at::Device device) {
  return Table::filled({kTableRows, kTableColumns}, at::kFloat, Normal{0, 1, 3},
                       {.placement = placement, .device = device});
}

class PrefetcherOnGpu : public test::NeedsGpu {};
class PrefetcherOnTwoGpus : public test::NeedsTwoGpus {};

const at::Device gpu_0("cuda:0"), gpu_1("cuda:1");

TEST_F(PrefetcherOnGpu, SeesWhatIsWrittenInEachPlacement) {
  for (const auto placement : {Placement::pageable, Placement::pinned, Placement::device}) {
    SCOPED_TRACE(std::string(to_string(placement)));
    for (const auto model : {at::Device(at::kCPU), gpu_0})
      expect_current_rows(table_in(placement, gpu_0), model, gpu_0);
  }
}

TEST_F(PrefetcherOnGpu, SeesWhatIsWrittenOnAStreamOfTheCallers) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, 0));
  for (const auto placement : {Placement::pinned, Placement::device})
    for (const auto model : {at::Device(at::kCPU), gpu_0})
      expect_current_rows(table_in(placement, gpu_0), model, gpu_0);
}

TEST_F(PrefetcherOnGpu, RethrowsWhatItsWorkerThrew) {
  Prefetcher prefetcher(table_in(Placement::pageable, gpu_0), gpu_0);
  prefetcher.submit(at::tensor({kTableRows}, at::kLong));
  EXPECT_THROW(prefetcher.take(), IndexError);
}

/// The model's stream is not a default one: a regression, in which only the table's GPU was waited for.
TEST_F(PrefetcherOnTwoGpus, BringsRowsToAnotherGpu) {
  const c10::cuda::CUDAMultiStreamGuard guard(
      std::vector{c10::cuda::getStreamFromPool(false, 0), c10::cuda::getStreamFromPool(false, 1)});
  for (const auto placement : {Placement::pinned, Placement::device})
    expect_current_rows(table_in(placement, gpu_0), gpu_1, gpu_0);
}

}  // namespace
}  // namespace speedtorch

/// What the library allocates from the driver and frees, also after failed calls; tables beyond 2^31 elements
/// and beyond a cap on the GPU's memory. Needs a GPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/tables/table.h"
#include "tests/speedtorch/gpu_cap.h"
#include "tests/speedtorch/gpu_fixture.h"

namespace speedtorch {
namespace {

class GpuAllocation : public test::NeedsGpu {};

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
const at::Device first_gpu("cuda:0");

/// True if CUDA knows the address as host memory that it reaches.
bool is_registered(const std::byte* address) {
  cudaPointerAttributes attributes{};
  C10_CUDA_CHECK(cudaPointerGetAttributes(&attributes, address));
  return attributes.type == cudaMemoryTypeHost;
}

TEST_F(GpuAllocation, PinnedMemoryRegistersItsPagesAndNoOthers) {
  const std::int64_t bytes = 3 * mebibyte + 8;  // LibTorch's own pinned allocator would take 4 MiB
  std::byte* first = nullptr;
  {
    at::Tensor tensor = allocate(Placement::pinned, bytes, first_gpu)->tensor({bytes}, at::kByte);
    cudaPointerAttributes attributes{};
    C10_CUDA_CHECK(cudaPointerGetAttributes(&attributes, tensor.data_ptr()));
    first = static_cast<std::byte*>(attributes.hostPointer);
    EXPECT_TRUE(is_registered(first));
    EXPECT_TRUE(is_registered(first + bytes - 1));
    EXPECT_FALSE(is_registered(first + bytes + 2 * mebibyte));
    tensor.fill_(5);
    EXPECT_EQ(tensor.sum().item<std::int64_t>(), 5 * bytes);
  }
  EXPECT_FALSE(is_registered(first));
  EXPECT_FALSE(is_registered(first + bytes - 1));
}

TEST_F(GpuAllocation, DeviceMemoryTakesTheBytesAskedForAndGivesThemBack) {
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto requested = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).requested_bytes[all].current;
  };
  const auto before = requested();
  at::Tensor tensor = allocate(Placement::device, 3 * mebibyte + 8, first_gpu)->tensor({8}, at::kByte);
  EXPECT_EQ(requested() - before, 3 * mebibyte + 8);
  tensor.reset();  // the last owner of the memory
  EXPECT_EQ(requested(), before);
}

/// EMULATED_GPU_FAIL names one call to fail (tests/emulated_gpu/CMakeLists.txt); by default none.
TEST_F(GpuAllocation, GoesOnAfterACallThatFailed) {
  int refused = 0;
  for (const auto placement : {Placement::device, Placement::pinned}) {
    std::vector<Table> tables;
    for (int k = 0; k < 4; ++k) {
      try {
        tables.push_back(
            Table::filled({1000, 33}, at::kFloat, Zeros{}, {.placement = placement, .device = first_gpu}));
      } catch (const Error& error) {
        ++refused;
      }
      EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << to_string(placement) << " " << k;
    }
    std::vector<const std::byte*> pages;
    for (const auto& table : tables) {
      EXPECT_EQ((table.tensor() + 1).sum().item<float>(), 33'000.0F) << to_string(placement);
      if (placement == Placement::pinned) pages.push_back(table.memory()->data());
    }
    tables.clear();
    for (const auto* page : pages) EXPECT_FALSE(is_registered(page));
  }
  EXPECT_EQ(refused, std::getenv("EMULATED_GPU_FAIL") == nullptr ? 0 : 1);
}

/// Rows whose offsets in bytes or elements coincide modulo 2^32.
TEST_F(GpuAllocation, MovesEachRowOfMoreThan32BitsOfElements) {
  constexpr std::int64_t width = 64, rows = (std::int64_t{1} << 32) / width + 1000;
  const auto table =
      Table::empty({rows, width}, at::kByte, {.placement = Placement::device, .device = first_gpu});
  at::Tensor array = table.tensor();
  std::vector<std::int64_t> chosen;
  for (const std::int64_t beyond : {0, 1 << 25, 1 << 26})  // 0, 2^31 and 2^32 elements
    for (const std::int64_t row : {3, 500, 999}) chosen.push_back(beyond + row);
  const auto index = at::tensor(chosen);
  const auto values = at::arange(index.numel() * width).to(at::kByte).view({-1, width}).add(7);
  for (const auto dtype : {at::kLong, at::kInt}) {
    const auto there = index.to(first_gpu, dtype);
    scatter_rows(array, there, values.to(first_gpu));
    auto out = at::zeros({index.numel(), width}, array.options());
    gather_rows(array, there, out);
    EXPECT_TRUE(at::equal(out.cpu(), values));
    for (std::int64_t k = 0; k < index.numel(); ++k)
      EXPECT_TRUE(at::equal(array[chosen[static_cast<std::size_t>(k)]].cpu(), values[k])) << k;
    check_index_errors(first_gpu);
    array.index_put_({there.to(at::kLong)}, at::zeros({width}, out.options()));
  }
}

/// The table exceeds what LibTorch may use; pinned, with its states, it trains on the GPU.
TEST_F(GpuAllocation, BeyondACapTrainsFromPinnedMemory) {
  constexpr std::int64_t rows = 200'000, width = 64;  // 51 MB
  const test::GpuCap cap(32 * mebibyte);
  const auto filled = [](Placement placement) {
    return Table::filled({rows, width}, at::kFloat, Zeros{}, {.placement = placement, .device = first_gpu});
  };
  EXPECT_THROW((void)filled(Placement::device), MemoryError);
  const auto table = filled(Placement::pinned);
  SparseRows side(table.tensor(), AdagradOptions{.lr = 0.5},
                  {.placement = Placement::pinned, .device = first_gpu});
  const auto index = at::randperm(rows, at::kLong).slice(0, 0, 200);
  const auto wanted = index.to(at::kFloat).div(rows).unsqueeze(1).to(first_gpu);
  const auto there = index.to(first_gpu);
  auto batch = at::zeros({index.numel(), width}, table.tensor().options());
  const auto step = [&] {
    gather_rows(table.tensor(), there, batch);
    const auto away = batch - wanted;
    side.step(there, away);
    return away.square().mean().item<double>();
  };
  const double first = step();
  double last = first;
  for (int k = 0; k < 8; ++k) last = step();
  check_index_errors(first_gpu);
  EXPECT_LT(last, 0.1 * first);
}

}  // namespace
}  // namespace speedtorch

// The CUDA entry points without a device: they refuse, with the reason.

#include "speedtorch/kernels/cuda/rows.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "speedtorch/kernels/cuda/ordered_rows.h"
#include "speedtorch/kernels/error.h"

namespace speedtorch::kernels {
namespace {

TEST(CudaRows, RefuseShapesBeforeTheDeviceIsAsked) {
  const std::int64_t index = 0;
  EXPECT_THROW(gather_rows_cuda({nullptr, 1, 8, 8}, &index, 1, {nullptr, 1, 4, 4}, nullptr), ShapeError);
  EXPECT_THROW(scatter_rows_cuda({nullptr, 2, 8, 8}, &index, 1, {nullptr, 1, 8, 8}, nullptr), ShapeError);
  EXPECT_THROW(stream_copy_cuda(nullptr, nullptr, -1, nullptr), ShapeError);
}

TEST(CudaRows, NoRowsNeedNoDevice) {
  const std::int32_t* none = nullptr;
  EXPECT_NO_THROW(gather_rows_cuda({nullptr, 1, 8, 8}, none, 0, {nullptr, 0, 8, 8}, nullptr));
  EXPECT_NO_THROW(scatter_rows_cuda({nullptr, 0, 8, 8}, none, 0, {nullptr, 1, 8, 8}, nullptr));
  EXPECT_NO_THROW(stream_copy_cuda(nullptr, nullptr, 0, nullptr));
}

TEST(CudaRows, AnOrderedGatherRefusesAndSkipsLikeAnyOther) {
  const std::int64_t index = 0;
  const auto gather = [&](std::int64_t count, Rows out) {
    gather_rows_ordered_cuda({nullptr, 1, 8, 8}, &index, count, out, nullptr, IndexOrder::unique, {});
  };
  EXPECT_THROW(gather(1, {nullptr, 1, 4, 4}), ShapeError);
  EXPECT_NO_THROW(gather(0, {nullptr, 0, 8, 8}));
  EXPECT_EQ(ordered_workspace_bytes(IndexOrder::as_given, 100, 8, 512), 0);
  EXPECT_THROW(ordered_workspace_bytes(IndexOrder::sorted, std::int64_t{1} << 31, 8, 512), ShapeError);
}

TEST(CudaRows, AMisalignedWorkspaceIsRefusedBeforeTheDeviceIsAsked) {
  const std::int64_t index = 0;
  alignas(256) std::array<std::byte, 512> memory{};
  try {
    gather_rows_ordered_cuda({nullptr, 1, 8, 8}, &index, 1, {nullptr, 1, 8, 8}, nullptr, IndexOrder::sorted,
                             {memory.data() + 16, 1 << 20});
    FAIL() << "a workspace 16 bytes past a multiple of 256";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("16 bytes past a multiple of 256"), std::string::npos)
        << error.what();
  }
}

TEST(CudaRows, WithoutADeviceTheErrorOfTheRuntimeIsNamed) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0)
    GTEST_SKIP() << "there is a device here; the device tests cover it";
  std::array<std::byte, 8> from{};
  std::array<std::byte, 8> to{};
  const std::int64_t index = 0;
  try {
    gather_rows_cuda({from.data(), 1, 8, 8}, &index, 1, {to.data(), 1, 8, 8}, nullptr);
    FAIL() << "a gather without a device";
  } catch (const CudaError& error) {
    EXPECT_EQ(error.name(), cudaGetErrorName(status)) << error.what();
  }
}

}  // namespace
}  // namespace speedtorch::kernels

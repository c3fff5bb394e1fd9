// The toolkit's batched copies on a device. Skipped without a GPU.

#include "speedtorch/kernels/cuda/batched_memcpy.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "speedtorch/kernels/cuda/device.h"
#include "tests/speedtorch/kernels/row_buffer.h"

namespace speedtorch::kernels {
namespace {

/// Scoped device memory that starts as a copy of host values.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : size_(values.size()) {
    check_cuda(cudaMalloc(&data_, size_ * sizeof(T)), "cudaMalloc");
    check_cuda(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  T* data() const { return static_cast<T*>(data_); }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    check_cuda(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

 private:
  std::size_t size_;
  void* data_ = nullptr;
};

constexpr std::int64_t kRows = 101, kCount = 60, kWidth = 36;

std::vector<std::byte> patterned(std::int64_t rows, std::uint64_t seed) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * kWidth));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(seed, i);
  return bytes;
}

void copy_row(std::vector<std::byte>& to, std::int64_t to_row, const std::vector<std::byte>& from,
              std::int64_t from_row) {
  std::memcpy(to.data() + to_row * kWidth, from.data() + from_row * kWidth, kWidth);
}

class BatchedMemcpyDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess) GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(status);
    if (devices == 0) GTEST_SKIP() << "no CUDA device: the driver lists none";
    check_cuda(cudaStreamCreate(&stream_), "cudaStreamCreate");
    gathered_ = patterned(kCount, 2);
    scattered_ = table_;
    for (std::int64_t i = 0; i < kCount; ++i) {
      const std::int64_t row = index_[static_cast<std::size_t>(i)];
      copy_row(gathered_, i, table_, row);
      copy_row(scattered_, row, values_, i);
    }
  }
  void TearDown() override {
    if (stream_ != nullptr) check_cuda(cudaStreamDestroy(stream_), "cudaStreamDestroy");
  }
  static Rows rows(const OnDevice<std::byte>& bytes, std::int64_t count) {
    return {bytes.data(), count, kWidth, kWidth};
  }

  cudaStream_t stream_ = nullptr;
  std::vector<std::byte> table_ = patterned(kRows, 1), values_ = patterned(kCount, 3);
  std::vector<std::int64_t> index_ = scattered_index<std::int64_t>(kCount, kRows);
  std::vector<std::byte> gathered_, scattered_;
};

TEST_F(BatchedMemcpyDevice, CubMovesAsThePlainLoop) {
  const OnDevice<std::byte> table(table_), out(patterned(kCount, 2)), values(values_);
  const OnDevice<std::int64_t> index(index_);
  const auto bytes = cub_rows_scratch_bytes(kCount);
  const OnDevice<std::byte> scratch(std::vector<std::byte>(static_cast<std::size_t>(bytes)));
  gather_rows_cub(rows(table, kRows), index.data(), kCount, rows(out, kCount), scratch.data(), bytes,
                  stream_);
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  EXPECT_TRUE(out.read() == gathered_);
  scatter_rows_cub(rows(values, kCount), index.data(), kCount, rows(table, kRows), scratch.data(), bytes,
                   stream_);
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  EXPECT_TRUE(table.read() == scattered_);
}

TEST_F(BatchedMemcpyDevice, TheCopyEngineMovesAsThePlainLoop) {
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  if (!MemcpyBatch::built_in() || driver < 12080)
    GTEST_SKIP() << "cudaMemcpyBatchAsync needs CUDA 13 and a 12.8 driver";
  const OnDevice<std::byte> table(table_), out(patterned(kCount, 2)), values(values_);
  MemcpyBatch copies;
  copies.gather(rows(table, kRows), index_.data(), kCount, rows(out, kCount), stream_);
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  EXPECT_TRUE(out.read() == gathered_);
  copies.scatter(rows(values, kCount), index_.data(), kCount, rows(table, kRows), stream_);
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  EXPECT_TRUE(table.read() == scattered_);
}

}  // namespace
}  // namespace speedtorch::kernels

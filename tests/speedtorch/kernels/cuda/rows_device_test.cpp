// The CUDA kernels on a device, against the plain loop: tables in device memory and in pinned host memory.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>

#include "speedtorch/kernels/cuda/device.h"
#include "speedtorch/kernels/cuda/ordered_rows.h"
#include "speedtorch/kernels/cuda/plan.h"
#include "speedtorch/kernels/cuda/rows.h"
#include "speedtorch/kernels/error.h"
#include "tests/speedtorch/kernels/row_buffer.h"

namespace speedtorch::kernels {
namespace {

/// A copy of host bytes in memory that kernels reach, with the same alignment to a cache line. It ends with
/// its allocation, because memory behind it would hide a read past the end.
class DeviceBytes {
 public:
  DeviceBytes(const void* from, std::size_t bytes, MemoryKind home) : home_(home), bytes_(bytes) {
    constexpr std::size_t kAllocationAlignment = 256;
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(from) % kAllocationAlignment;
    if (home == MemoryKind::device) {
      check_cuda(cudaMalloc(&allocation_, offset + bytes), "cudaMalloc");
    } else {
      check_cuda(cudaHostAlloc(&allocation_, offset + bytes, cudaHostAllocPortable | cudaHostAllocMapped),
                 "cudaHostAlloc");
    }
    data_ = static_cast<std::byte*>(allocation_) + offset;
    check_cuda(cudaMemcpy(data_, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  }
  ~DeviceBytes() {
    if (home_ == MemoryKind::device) {
      cudaFree(allocation_);
    } else {
      cudaFreeHost(allocation_);
    }
  }
  DeviceBytes(const DeviceBytes&) = delete;

  std::byte* data() const { return data_; }
  std::vector<std::byte> read() const {
    std::vector<std::byte> result(bytes_);
    check_cuda(cudaMemcpy(result.data(), data_, bytes_, cudaMemcpyDefault), "cudaMemcpy");
    return result;
  }

 private:
  MemoryKind home_;
  std::size_t bytes_;
  void* allocation_ = nullptr;
  std::byte* data_ = nullptr;
};

/// A copy of a RowBuffer with its gaps and the first margin. The last margin is kept on the host, because the
/// device has nothing there.
class DeviceRows {
 public:
  DeviceRows(const RowBuffer& rows, MemoryKind home)
      : margin_(rows.bytes().begin() + static_cast<std::ptrdiff_t>(end_of(rows)), rows.bytes().end()),
        bytes_(rows.bytes().data(), end_of(rows), home),
        first_(rows.place(0)),
        shape_(rows.view()) {}

  Rows view() const { return {bytes_.data() + first_, shape_.rows, shape_.row_bytes, shape_.stride_bytes}; }
  std::vector<std::byte> read() const {
    auto all = bytes_.read();
    all.insert(all.end(), margin_.begin(), margin_.end());
    return all;
  }

 private:
  static std::size_t end_of(const RowBuffer& rows) {
    const ConstRows view = rows.view();
    return view.rows == 0 ? rows.bytes().size()
                          : rows.place(view.rows - 1) + static_cast<std::size_t>(view.row_bytes);
  }

  std::vector<std::byte> margin_;
  DeviceBytes bytes_;
  std::size_t first_;
  ConstRows shape_;
};

/// A workspace of exactly that many bytes.
class Lent {
 public:
  explicit Lent(std::int64_t bytes) : bytes_(bytes) {
    check_cuda(cudaMalloc(&data_, static_cast<std::size_t>(std::max<std::int64_t>(1, bytes))), "cudaMalloc");
  }
  ~Lent() { cudaFree(data_); }
  Lent(const Lent&) = delete;

  Workspace get() const { return {static_cast<std::byte*>(data_), bytes_}; }

 private:
  void* data_ = nullptr;
  std::int64_t bytes_;
};

class CudaRowsDevice : public ::testing::TestWithParam<MemoryKind> {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess) GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(status);
    if (devices == 0) GTEST_SKIP() << "no CUDA device: the driver lists none";
    check_cuda(cudaStreamCreate(&stream_), "cudaStreamCreate");
  }
  void TearDown() override {
    if (stream_ != nullptr) check_cuda(cudaStreamDestroy(stream_), "cudaStreamDestroy");
  }
  void finish() const { check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  /// Captures `work` on the stream and runs the graph once.
  template <class Work>
  void replay(Work work) const {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t runnable = nullptr;
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    work();
    check_cuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    check_cuda(cudaGraphInstantiate(&runnable, graph, 0), "cudaGraphInstantiate");
    check_cuda(cudaGraphLaunch(runnable, stream_), "cudaGraphLaunch");
    finish();
    check_cuda(cudaGraphExecDestroy(runnable), "cudaGraphExecDestroy");
    check_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }

  template <class Index>
  void expect_gather(const Layout& from, const Layout& to) const {
    const RowBuffer table(from, 1);
    const RowBuffer out(to, 2);
    const auto index = scattered_index<Index>(to.rows, from.rows);
    const DeviceRows device_table(table, GetParam());
    const DeviceRows device_out(out, MemoryKind::device);
    const DeviceBytes device_index(index.data(), index.size() * sizeof(Index), MemoryKind::device);
    gather_rows_cuda(device_table.view(), reinterpret_cast<const Index*>(device_index.data()), to.rows,
                     device_out.view(), stream_, launch_);
    finish();
    EXPECT_TRUE(device_out.read() == plain_gather(table, index, out)) << from.row_bytes;
  }

  template <class Index>
  void expect_scatter(const Layout& from, const Layout& to) const {
    const RowBuffer values(from, 3);
    const RowBuffer table(to, 4);
    const auto index = scattered_index<Index>(from.rows, to.rows);
    const DeviceRows device_values(values, MemoryKind::device);
    const DeviceRows device_table(table, GetParam());
    const DeviceBytes device_index(index.data(), index.size() * sizeof(Index), MemoryKind::device);
    scatter_rows_cuda(device_values.view(), reinterpret_cast<const Index*>(device_index.data()), from.rows,
                      device_table.view(), stream_, launch_);
    finish();
    EXPECT_TRUE(device_table.read() == plain_scatter(values, index, table)) << from.row_bytes;
  }

  cudaStream_t stream_ = nullptr;
  CudaLaunch launch_;
};

constexpr std::int64_t kRows = 4099;  // prime, so scattered_index repeats none
constexpr std::int64_t kCount = 1500;

TEST_P(CudaRowsDevice, EveryWidthMovesAsThePlainLoop) {
  for (const std::int64_t width :
       {1, 2, 3, 4, 8, 12, 16, 31, 32, 48, 64, 100, 128, 129, 256, 512, 516, 1024, 4100}) {
    expect_gather<std::int64_t>({kRows, width, 0, 0}, {kCount, width, 0, 0});
    expect_scatter<std::int64_t>({kCount, width, 0, 0}, {kRows, width, 0, 0});
    expect_gather<std::int32_t>({kRows, width, 4, 12}, {kCount, width, 8, 0});
    expect_scatter<std::int32_t>({kCount, width, 8, 0}, {kRows, width, 4, 12});
  }
}

TEST_P(CudaRowsDevice, EveryAlignmentMovesAsThePlainLoop) {
  for (const std::int64_t alignment : {1, 2, 4, 8, 16, 33}) {
    expect_gather<std::int64_t>({kRows, 64, alignment, 3}, {kCount, 64, 0, 0});
    expect_scatter<std::int64_t>({kCount, 64, 0, 0}, {kRows, 64, alignment, 3});
  }
}

TEST_P(CudaRowsDevice, EveryOffsetFromALineMovesAsThePlainLoop) {
  for (const std::int64_t width : {47, 64, 130, 188, 353, 516, 656, 1152, 4100}) {
    for (std::int64_t offset = 0; offset < 128; offset += width % 4 == 0 ? 4 : 7) {
      expect_gather<std::int64_t>({331, width, offset, 0}, {100, width, 0, 0});
      expect_scatter<std::int64_t>({100, width, 0, 0}, {331, width, offset, 0});
    }
  }
}

TEST_P(CudaRowsDevice, WithABudgetAndUncheckedItMovesTheSame) {
  for (const int max_sms : {1, 8, 10'000}) {
    launch_.max_sms = max_sms;
    launch_.check_indices = max_sms == 1;
    for (const std::int64_t width : {4, 64, 353, 512, 516, 70000}) {
      expect_gather<std::int64_t>({kRows / 7, width, 0, 0}, {200, width, 0, 0});
      expect_scatter<std::int32_t>({200, width, 0, 0}, {kRows / 7, width, 0, 0});
    }
  }
}

/// An index that repeats a third of its rows, sorted and deduplicated on the device.
TEST_P(CudaRowsDevice, InAnyOrderOfTheIndexItGathersTheSame) {
  for (const IndexOrder order : {IndexOrder::as_given, IndexOrder::sorted, IndexOrder::unique}) {
    for (const std::int64_t width : {4, 31, 64, 353, 512, 5000}) {
      const RowBuffer table({kRows, width, 0, 0}, 1);
      const RowBuffer out({kCount, width, 0, 0}, 2);
      auto index = scattered_index<std::int64_t>(kCount, kRows);
      for (std::size_t i = 0; i < index.size(); i += 3) index[i] = index[i / 9];
      index[7] = -1;
      auto harmless = index;
      harmless[7] = 0;
      auto expected = plain_gather(table, harmless, out);
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(out.place(7)), width, std::byte{0xFF});
      const DeviceRows device_table(table, GetParam());
      const DeviceRows device_out(out, MemoryKind::device);
      const DeviceBytes device_index(index.data(), index.size() * sizeof(std::int64_t), MemoryKind::device);
      const Lent workspace(ordered_workspace_bytes(order, kCount, 8, width));
      const IndexErrors none;
      const DeviceBytes device_errors(&none, sizeof(none), MemoryKind::device);
      launch_.errors = reinterpret_cast<IndexErrors*>(device_errors.data());
      gather_rows_ordered_cuda(device_table.view(),
                               reinterpret_cast<const std::int64_t*>(device_index.data()), kCount,
                               device_out.view(), stream_, order, workspace.get(), launch_);
      finish();
      EXPECT_TRUE(device_out.read() == expected) << width;
      IndexErrors errors;
      const auto read = device_errors.read();
      std::memcpy(&errors, read.data(), sizeof(errors));
      EXPECT_EQ(errors.count, 1u);
      EXPECT_EQ(errors.first_position, 7u);
    }
  }
}

/// A captured call runs again with the operands' new content, in each order of the index.
TEST_P(CudaRowsDevice, ACapturedCallReplays) {
  for (const IndexOrder order : {IndexOrder::as_given, IndexOrder::sorted, IndexOrder::unique}) {
    const RowBuffer table({kRows, 64, 0, 0}, 1);
    const RowBuffer out({kCount, 64, 0, 0}, 2);
    auto index = scattered_index<std::int64_t>(kCount, kRows);
    for (std::size_t i = 0; i < index.size(); i += 3) index[i] = index[i / 9];
    const DeviceRows device_table(table, GetParam());
    const DeviceRows device_out(out, MemoryKind::device);
    const DeviceBytes device_index(index.data(), index.size() * sizeof(std::int64_t), MemoryKind::device);
    const Lent workspace(ordered_workspace_bytes(order, kCount, 8, 64));
    const auto gather = [&] {
      gather_rows_ordered_cuda(device_table.view(),
                               reinterpret_cast<const std::int64_t*>(device_index.data()), kCount,
                               device_out.view(), stream_, order, workspace.get(), launch_);
    };
    gather();  // loads the kernels
    finish();
    std::reverse(index.begin(), index.end());
    check_cuda(
        cudaMemcpy(device_index.data(), index.data(), index.size() * sizeof(std::int64_t), cudaMemcpyDefault),
        "cudaMemcpy");
    replay(gather);
    EXPECT_TRUE(device_out.read() == plain_gather(table, index, out)) << int(order);
  }
}

/// CUDA forbids launches on the default stream while a stream that waits for it is captured.
TEST_P(CudaRowsDevice, AFailedLaunchIsReported) {
  const RowBuffer table({kRows, 64, 0, 0}, 1);
  const RowBuffer out({1, 64, 0, 0}, 2);
  const DeviceRows device_table(table, GetParam());
  const DeviceRows device_out(out, MemoryKind::device);
  const std::int64_t row = 3;
  const DeviceBytes index(&row, sizeof(row), MemoryKind::device);
  const auto gather = [&] {
    gather_rows_cuda(device_table.view(), reinterpret_cast<const std::int64_t*>(index.data()), 1,
                     device_out.view(), nullptr, launch_);
  };
  gather();  // loads the kernel
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  EXPECT_THROW(gather(), CudaError);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  cudaStreamEndCapture(stream_, &graph);  // an invalid one fails
  cudaGetLastError();
  if (graph != nullptr) check_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

TEST_P(CudaRowsDevice, OneRowAndMoreRowsThanTheDeviceRunsAtOnce) {
  expect_gather<std::int64_t>({7, 512, 0, 0}, {1, 512, 0, 0});
  expect_gather<std::int64_t>({100003, 4, 0, 0}, {3000017, 4, 0, 0});
  expect_gather<std::int64_t>({3, 1 << 20, 0, 0}, {2, 1 << 20, 0, 0});
}

TEST_P(CudaRowsDevice, BadIndicesAreReportedAndDoNoHarm) {
  const RowBuffer table({kRows, 64, 0, 0}, 1);
  const RowBuffer out({kCount, 64, 0, 0}, 2);
  auto index = scattered_index<std::int64_t>(kCount, kRows);
  index[20] = -1;
  index[900] = kRows;
  index[kCount - 1] = INT64_MIN;
  const DeviceRows device_table(table, GetParam());
  const DeviceRows device_out(out, MemoryKind::device);
  const DeviceBytes device_index(index.data(), index.size() * sizeof(std::int64_t), MemoryKind::device);
  const IndexErrors none;
  const DeviceBytes device_errors(&none, sizeof(none), MemoryKind::device);
  auto* const errors_at = reinterpret_cast<IndexErrors*>(device_errors.data());
  auto* const index_at = reinterpret_cast<const std::int64_t*>(device_index.data());

  gather_rows_cuda(device_table.view(), index_at, kCount, device_out.view(), stream_, {.errors = errors_at});
  scatter_rows_cuda(device_out.view(), index_at, kCount, device_table.view(), stream_, {.errors = errors_at});
  finish();

  IndexErrors errors;
  const auto read = device_errors.read();
  std::memcpy(&errors, read.data(), sizeof(errors));
  EXPECT_EQ(errors.count, 6u);
  EXPECT_EQ(errors.first_position, 20u);
  EXPECT_TRUE(errors.seen_position == 20 || errors.seen_position == 900 ||
              errors.seen_position == kCount - 1);
  EXPECT_EQ(errors.seen_index, index[static_cast<std::size_t>(errors.seen_position)]);
  EXPECT_EQ(errors.seen_rows, kRows);
  EXPECT_TRUE(device_table.read() == table.bytes())
      << "the good rows went there and back, the bad ones nowhere";
  const auto written = device_out.read();
  for (const std::int64_t bad : {std::int64_t{20}, std::int64_t{900}, kCount - 1}) {
    EXPECT_EQ(written[out.place(bad)], std::byte{0xFF});
    EXPECT_EQ(written[out.place(bad) + 63], std::byte{0xFF});
  }
}

/// A reader that leaves the count alone and resets the position sees the next invalid index.
TEST_P(CudaRowsDevice, ReportedIndicesAreNotReportedAgain) {
  const RowBuffer table({kRows, 64, 0, 0}, 1);
  const RowBuffer out({1, 64, 0, 0}, 2);
  const DeviceRows device_table(table, GetParam());
  const DeviceRows device_out(out, MemoryKind::device);
  const std::int64_t bad = -5;
  const DeviceBytes index(&bad, sizeof(bad), MemoryKind::device);
  IndexErrors errors;
  errors.count = 3, errors.seen_index = -1;
  const DeviceBytes device_errors(&errors, sizeof(errors), MemoryKind::device);
  gather_rows_cuda(device_table.view(), reinterpret_cast<const std::int64_t*>(index.data()), 1,
                   device_out.view(), stream_,
                   {.errors = reinterpret_cast<IndexErrors*>(device_errors.data())});
  finish();
  const auto read = device_errors.read();
  std::memcpy(&errors, read.data(), sizeof(errors));
  EXPECT_EQ(errors.count, 4u);
  EXPECT_EQ(errors.first_position, 0u);
  EXPECT_EQ(errors.seen_index, -5);
}

TEST_P(CudaRowsDevice, StreamCopyCopiesEverySizeAndAlignment) {
  for (const std::int64_t bytes : {1, 15, 16, 100, 4096, 1 << 20, (1 << 24) + 5}) {
    for (const std::int64_t alignment : {0, 1, 4, 16}) {
      const RowBuffer from({1, bytes, alignment, 0}, 1);
      const RowBuffer to({1, bytes, bytes % 2 == 0 ? alignment : 0, 0}, 2);
      const DeviceRows device_from(from, GetParam());
      const DeviceRows device_to(to, MemoryKind::device);
      const int max_sms = alignment == 4 ? 2 : 0;
      stream_copy_cuda(device_to.view().data, device_from.view().data, bytes, stream_, max_sms);
      finish();
      EXPECT_TRUE(device_to.read() == plain_gather(from, std::vector<std::int64_t>{0}, to)) << bytes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, CudaRowsDevice, ::testing::Values(MemoryKind::device, MemoryKind::host),
                         [](const ::testing::TestParamInfo<MemoryKind>& home) {
                           return home.param == MemoryKind::device ? std::string("Device")
                                                                   : std::string("Pinned");
                         });

}  // namespace
}  // namespace speedtorch::kernels

/// The stream beside the caller's on which a Prefetcher's copies and kernels run: behind an interface, so
/// that their order can be tested where there is no GPU.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace speedtorch {

/// Work on it goes in order; between it and the caller's stream only these calls make an order. `slot` is one
/// of a few buffers that are used in turn.
class SideStream {
 public:
  virtual ~SideStream() = default;
  /// By the caller: notes what the caller's stream has queued until now, beside what was noted before.
  virtual void record_caller(std::size_t slot) = 0;
  /// What is queued from now on comes after what was noted.
  virtual void wait_for_caller(std::size_t slot) = 0;
  /// Queues what `work` queues.
  virtual void run(const std::function<void()>& work) = 0;
  /// Notes what was queued until now.
  virtual void record(std::size_t slot) = 0;
  /// By the caller: what the caller's stream gets from now on comes after the mark.
  virtual void make_caller_wait(std::size_t slot) = 0;
  /// Returns when all before the mark is done; at once where nothing was marked.
  virtual void make_host_wait(std::size_t slot) = 0;
};

/// A stream from LibTorch's pool on each of these GPUs: that of the rows, and that of the model where it is
/// another. What is said of a stream above goes for all of them together. Not yet run on a GPU.
std::unique_ptr<SideStream> side_stream(const std::vector<at::Device>& gpus, std::size_t slots);

}  // namespace speedtorch

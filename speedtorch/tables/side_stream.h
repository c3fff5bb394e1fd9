/// A stream on which copies and kernels run beside the caller's, such as a Prefetcher's. An interface, so
/// that its order is tested without a GPU.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace speedtorch {

/// Its work runs in order. Only these calls order it against the caller's stream. `slot` is one of a few
/// buffers used in turn.
class SideStream {
 public:
  virtual ~SideStream() = default;
  /// Called by the caller: records what its stream has queued until now, in addition to what was recorded
  /// before.
  virtual void record_caller(std::size_t slot) = 0;
  /// Work that is queued from now on runs after what was recorded.
  virtual void wait_for_caller(std::size_t slot) = 0;
  /// Queues on the side stream what `work` queues.
  virtual void run(const std::function<void()>& work) = 0;
  /// Records what was queued until now.
  virtual void record(std::size_t slot) = 0;
  /// Called by the caller: work that its stream gets from now on runs after the recorded work.
  virtual void make_caller_wait(std::size_t slot) = 0;
  /// Queues work after what was recorded of the caller, and records it.
  void run_after_caller(std::size_t slot, const std::function<void()>& work) {
    wait_for_caller(slot);
    run(work);
    record(slot);
  }
  /// Returns once the recorded work is done; at once if nothing was recorded.
  virtual void make_host_wait(std::size_t slot) = 0;
};

/// Returns a stream from LibTorch's pool on each of these GPUs: that of the rows and, if it is another, that
/// of the model. The calls above apply to all of them together. Not yet run on a GPU.
std::unique_ptr<SideStream> side_stream(const std::vector<at::Device>& gpus, std::size_t slots);

}  // namespace speedtorch

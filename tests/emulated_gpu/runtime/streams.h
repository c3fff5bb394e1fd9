// The queues of all streams. Work runs when something waits for it, as late as CUDA allows, or, with eager
// streams, at the call. A missing wait thus shows: the work that should have been waited for has not run.
#pragma once
#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "tests/emulated_gpu/runtime/settings.h"
#include "tests/emulated_gpu/runtime/work.h"

namespace emulated_gpu {

using Lock = std::unique_lock<std::mutex>;

/// Guarded by the runtime's lock, which is let go while work runs.
class Streams {
 public:
  Streams();

  CUstream_st* create(int device, unsigned flags, int priority);
  /// Returns at once: its work still runs.
  void destroy(CUstream_st* stream);
  /// Returns the stream behind a handle, or null. 0 and cudaStreamLegacy are the current device's legacy
  /// stream.
  CUstream_st* find(cudaStream_t handle, int current_device);
  CUstream_st* legacy(int device) { return legacy_[static_cast<std::size_t>(device)].get(); }

  /// Queues work; the caller runs it if streams are eager.
  WorkPointer push(CUstream_st* stream, std::string what, std::function<void()> run);
  /// Runs work, and what comes before it, and returns when it is done.
  void finish(Lock& lock, const WorkPointer& work);
  void finish_stream(Lock& lock, CUstream_st* stream);
  void finish_device(Lock& lock, int device);
  void finish_all(Lock& lock);
  /// Runs one piece of work on the way to `work`. An idle poll thus gets there.
  void progress(Lock& lock, const WorkPointer& work);

  /// True if the legacy stream's work would wait for a stream that is being captured.
  [[nodiscard]] bool legacy_meets_capture(const CUstream_st* legacy) const;

 private:
  void step(Lock& lock, const WorkPointer& work);
  std::shared_ptr<CUstream_st> owner(CUstream_st* stream) const;

  std::array<std::shared_ptr<CUstream_st>, max_devices> legacy_;
  std::map<CUstream_st*, std::shared_ptr<CUstream_st>> streams_;
  std::set<std::shared_ptr<CUstream_st>> destroyed_;  ///< that still have work
  std::map<std::pair<std::thread::id, int>, CUstream_st*> per_thread_;
  std::condition_variable changed_;
};

/// True in a thread that runs work at the moment: CUDA's functions must not be called then.
bool in_work();

}  // namespace emulated_gpu

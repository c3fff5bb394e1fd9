/// For the library's own files.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace speedtorch {

/// Prefers neither side, unlike std::shared_mutex alone, with which a few threads that read in turn keep a
/// writer waiting for ever.
class FairSharedMutex {
 public:
  void lock() {
    const std::lock_guard turn(turn_);
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }
  void lock_shared() {
    const std::lock_guard turn(turn_);
    mutex_.lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::mutex turn_;
  std::shared_mutex mutex_;
};

}  // namespace speedtorch

/// A GPU stream for work that goes on beside what the current stream does. Not yet run on a GPU.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <functional>
#include <optional>

namespace stbench {

class OwnStream {
 public:
  /// Takes a stream from LibTorch's pool; of the CPU none, there work is done at once.
  explicit OwnStream(c10::Device device);

  /// Queues what work() does on the stream: behind what the current stream holds so far, and beside what that
  /// one is given next.
  void run(const std::function<void()>& work);
  /// What comes later on the current stream waits for it.
  void join();

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;
  std::optional<c10::Event> before_, after_;
};

}  // namespace stbench

/// A GPU stream for work beside the current stream. Not yet run on a GPU.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <functional>
#include <optional>

namespace stbench {

class OwnStream {
 public:
  /// Takes a stream from LibTorch's pool. On the CPU there is none, and work is done at once.
  explicit OwnStream(c10::Device device);

  /// Queues what work() does on the stream: after what the current stream holds so far, and beside what it
  /// gets next.
  void run(const std::function<void()>& work);
  /// Makes later work on the current stream wait for it.
  void join();

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;
  std::optional<c10::Event> before_, after_;
};

}  // namespace stbench

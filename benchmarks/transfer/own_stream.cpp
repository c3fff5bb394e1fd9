#include "benchmarks/transfer/own_stream.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace stbench {

// LibTorch's device-independent streams, so that this compiles without CUDA's headers.
OwnStream::OwnStream(c10::Device device) : device_(device) {
  if (device.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  before_.emplace(device.type());
  after_.emplace(device.type());
}

void OwnStream::run(const std::function<void()>& work) {
  if (!stream_) return work();
  before_->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  before_->block(*stream_);
  const c10::StreamGuard on_it(*stream_);
  work();
  after_->record(*stream_);
}

void OwnStream::join() {
  if (stream_) after_->block(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
}

}  // namespace stbench

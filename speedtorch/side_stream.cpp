#include "speedtorch/side_stream.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <vector>

namespace speedtorch {
namespace {

class StreamOfDevice final : public SideStream {
 public:
  StreamOfDevice(at::Device device, std::size_t slots)
      : device_(device), streams_(device.type()), side_(streams_.getStreamFromGlobalPool(device)) {
    for (std::size_t k = 0; k < slots; ++k) {
      noted_.emplace_back(device.type());
      marked_.emplace_back(device.type());
    }
  }

  void note_caller(std::size_t slot) override { noted_[slot].record(streams_.getStream(device_)); }
  void follow_caller(std::size_t slot) override { noted_[slot].block(side_); }
  void run(const std::function<void()>& work) override {
    const c10::StreamGuard guard(side_);
    work();
  }
  void mark(std::size_t slot) override { marked_[slot].record(side_); }
  void make_caller_wait(std::size_t slot) override { marked_[slot].block(streams_.getStream(device_)); }
  void make_host_wait(std::size_t slot) override { marked_[slot].synchronize(); }

 private:
  at::Device device_;
  c10::impl::VirtualGuardImpl streams_;
  c10::Stream side_;
  std::vector<c10::Event> noted_;
  std::vector<c10::Event> marked_;
};

}  // namespace

std::unique_ptr<SideStream> side_stream(at::Device device, std::size_t slots) {
  return std::make_unique<StreamOfDevice>(device, slots);
}

}  // namespace speedtorch

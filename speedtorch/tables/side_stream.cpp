#include "speedtorch/tables/side_stream.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <vector>

namespace speedtorch {
namespace {

using Events = std::vector<c10::Event>;  // one per GPU

class StreamsOfGpus final : public SideStream {
 public:
  StreamsOfGpus(const std::vector<at::Device>& gpus, std::size_t slots)
      : gpus_(gpus), streams_(gpus.front().type()), caller_events_(slots), side_events_(slots) {
    for (const auto gpu : gpus_) {
      sides_.push_back(streams_.getStreamFromGlobalPool(gpu));
      for (auto* const slot_events : {&caller_events_, &side_events_})
        for (auto& events : *slot_events) events.emplace_back(gpu.type());
    }
  }

  void record_caller(std::size_t slot) override {
    const auto streams = callers();
    hold(streams, caller_events_[slot]);  // which may be of other streams
    record_all(caller_events_[slot], streams);
  }
  void wait_for_caller(std::size_t slot) override { hold(sides_, caller_events_[slot]); }
  void run(const std::function<void()>& work) override {
    const c10::MultiStreamGuard guard(sides_);
    work();
  }
  void record(std::size_t slot) override { record_all(side_events_[slot], sides_); }
  void make_caller_wait(std::size_t slot) override { hold(callers(), side_events_[slot]); }
  void make_host_wait(std::size_t slot) override {
    for (auto& event : side_events_[slot]) event.synchronize();
  }

 private:
  /// The calling thread's current streams.
  [[nodiscard]] std::vector<c10::Stream> callers() const {
    std::vector<c10::Stream> found;
    for (const auto gpu : gpus_) found.push_back(streams_.getStream(gpu));
    return found;
  }
  static void record_all(Events& events, const std::vector<c10::Stream>& streams) {
    for (std::size_t k = 0; k < events.size(); ++k) events[k].record(streams[k]);
  }
  /// Makes each of the streams wait for all events.
  static void hold(const std::vector<c10::Stream>& streams, Events& events) {
    for (auto& event : events)
      for (const auto& stream : streams) event.block(stream);
  }

  std::vector<at::Device> gpus_;
  c10::impl::VirtualGuardImpl streams_;
  std::vector<c10::Stream> sides_;
  std::vector<Events> caller_events_, side_events_;  // per slot
};

}  // namespace

std::unique_ptr<SideStream> side_stream(const std::vector<at::Device>& gpus, std::size_t slots) {
  return std::make_unique<StreamsOfGpus>(gpus, slots);
}

}  // namespace speedtorch

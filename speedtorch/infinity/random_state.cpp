#include "speedtorch/infinity/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace speedtorch::infinity {
namespace {

at::CPUGeneratorImpl* cpu() {
  return at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
}

/// True for a GPU. The CPU's generator is saved separately, and other devices (meta) have none.
bool has_generator(at::Device device) { return device.is_cuda(); }

at::Generator generator_of(at::Device device) { return at::globalContext().defaultGenerator(device); }

}  // namespace

RandomState::RandomState(at::Device device, const std::lock_guard<std::mutex>& /*of_cpu*/)
    : device_(device),
      engine_(cpu()->engine()),
      next_float_(cpu()->next_float_normal_sample()),
      next_double_(cpu()->next_double_normal_sample()) {}

RandomState::RandomState(at::Device device) : RandomState(device, std::lock_guard(cpu()->mutex_)) {
  if (!has_generator(device)) return;
  at::Generator generator = generator_of(device);
  const std::lock_guard lock(generator.mutex());
  of_device_ = generator.get_state();
}

void RandomState::restore() const {
  {
    const std::lock_guard lock(cpu()->mutex_);
    cpu()->set_engine(engine_);
    cpu()->set_next_float_normal_sample(next_float_);
    cpu()->set_next_double_normal_sample(next_double_);
  }
  if (!has_generator(device_)) return;
  at::Generator generator = generator_of(device_);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(of_device_);
}

bool RandomState::operator==(const RandomState& other) const {
  const at::mt19937_data_pod mine = engine_.data();
  const at::mt19937_data_pod theirs = other.engine_.data();
  return mine.seed_ == theirs.seed_ && mine.left_ == theirs.left_ && mine.next_ == theirs.next_ &&
         mine.state_ == theirs.state_ && next_float_ == other.next_float_ &&
         next_double_ == other.next_double_ && (!of_device_.defined() || of_device_.equal(other.of_device_));
}

}  // namespace speedtorch::infinity

#include "speedtorch/infinity/offload.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <mutex>
#include <typeinfo>
#include <unordered_set>
#include <utility>

#include "speedtorch/infinity/errors.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/system/limits.h"

namespace speedtorch::infinity {

struct Offload::Plan {
  std::int64_t at_least_bytes;
  std::unordered_set<const void*> stay;  ///< storages
  std::shared_ptr<OffloadFigures> figures;
};

namespace {

/// The plan of this thread's current Offload.
thread_local std::shared_ptr<Offload::Plan> plan_of_thread;

/// One saved tensor: the tensor itself, or its copy on the host.
class Saved final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Saved(std::shared_ptr<Offload::Plan> plan) : plan_(std::move(plan)) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    if (!wanted(tensor)) {
      kept_ = tensor;
      return;
    }
    const at::NoGradGuard no_grad;
    device_ = tensor.device();
    host_ = host_memory_for(tensor);
    host_.copy_(tensor, /*non_blocking=*/device_.is_cuda());
    count(&OffloadFigures::packed, &OffloadFigures::packed_bytes);
  }

  at::Tensor call_unpack_hook() override {
    if (!host_.defined()) return kept_;
    const at::NoGradGuard no_grad;
    at::Tensor back = at::empty_strided(host_.sizes(), host_.strides(), host_.options().device(device_));
    back.copy_(host_, /*non_blocking=*/device_.is_cuda());  // on the stream that the forward pass used
    count(&OffloadFigures::unpacked, &OffloadFigures::unpacked_bytes);
    return back;
  }

 private:
  [[nodiscard]] bool wanted(const at::Tensor& tensor) const {
    return tensor.defined() && tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense() &&
           static_cast<std::int64_t>(tensor.nbytes()) >= plan_->at_least_bytes &&
           !plan_->stay.contains(tensor.storage().unsafeGetStorageImpl());
  }

  /// For a GPU, memory of LibTorch's pinned pool, which waits for pending copies. Registering memory per
  /// tensor would stall the GPU.
  [[nodiscard]] static at::Tensor host_memory_for(const at::Tensor& tensor) {
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    if (tensor.is_cuda()) {
      require_memory("pinned memory", bytes, MemoryUse::locked);
      return at::empty_strided(tensor.sizes(), tensor.strides(),
                               tensor.options().device(at::kCPU).pinned_memory(true));
    }
    const auto memory = allocate(Placement::pageable, bytes);
    return memory->host_tensor({tensor.numel()}, tensor.scalar_type())
        .as_strided(tensor.sizes(), tensor.strides(), 0);
  }

  void count(std::int64_t OffloadFigures::*tensors, std::int64_t OffloadFigures::*all_bytes) {
    if (!plan_->figures) return;
    static std::mutex mutex;  // a backward pass may run on another thread
    const std::lock_guard lock(mutex);
    ++((*plan_->figures).*tensors);
    (*plan_->figures).*all_bytes += static_cast<std::int64_t>(host_.nbytes());
  }

  std::shared_ptr<Offload::Plan> plan_;
  at::Tensor kept_;
  at::Tensor host_;
  at::Device device_ = at::kCPU;
};

/// LibTorch's engine, with our hooks for threads that have a plan.
struct OffloadingEngine final : torch::autograd::Engine {
  /// LibTorch 2.11 starts the threads for GPUs once per process, for the engine that first runs a backward
  /// pass.
  OffloadingEngine() {
    initialize_device_threads_pool();
    if (device_ready_queues_.empty()) start_device_threads();
  }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (!plan_of_thread) return nullptr;
    return std::make_unique<Saved>(plan_of_thread);
  }
};

/// Never destroyed, like LibTorch's own, because its threads may outlive main().
torch::autograd::Engine& the_engine() {
  static auto* engine = new OffloadingEngine;
  return *engine;
}

/// Only the engine can provide such hooks. Ours stays permanently: with one engine per batch, the backward
/// pass of batch()'s outputs could begin in one engine and continue in another, whose GPU threads do not
/// share queues.
void take_over_engine() {
  torch::autograd::Engine& there = torch::autograd::Engine::get_default_engine();
  if (typeid(there) != typeid(torch::autograd::Engine))
    throw InfinityBatchError("options.offload_at_least: the process's autograd engine is " +
                             c10::demangle(typeid(there).name()) +
                             ", not LibTorch's own (a Python interpreter?), and cannot be replaced");
  torch::autograd::set_default_engine_stub(&the_engine);
}

}  // namespace

Offload::Offload(std::int64_t at_least_bytes, const Tensors& stay, std::shared_ptr<OffloadFigures> figures)
    : plan_(std::make_shared<Plan>(Plan{at_least_bytes, {}, std::move(figures)})) {
  static std::once_flag once;
  std::call_once(once, take_over_engine);
  for (const at::Tensor& tensor : stay) plan_->stay.insert(tensor.storage().unsafeGetStorageImpl());
  outer_ = std::exchange(plan_of_thread, plan_);
}

Offload::~Offload() { plan_of_thread = outer_; }

}  // namespace speedtorch::infinity

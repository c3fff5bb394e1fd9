#include "speedtorch/infinity/layer_watch.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <unordered_map>

#include "speedtorch/infinity/normalisation_dispatch.h"

namespace speedtorch::infinity {

struct LayerWatch::State {
  using Clock = std::chrono::steady_clock;
  std::unordered_map<const void*, std::string> layers;  ///< by parameter
  std::map<std::string, double> seconds;
  bool batch_norm = false;
  bool batch_statistics = false;
  bool instance_statistics = false;  ///< that moved
  int depth = 0;
  int instance_norm = 0;  ///< the depth at which one runs; 0: none
  std::string layer;      ///< of the running outermost operation
  Clock::time_point start;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  State* outer = nullptr;

  void begin(const at::RecordFunction& function);
  void end();
  void find_layer(const c10::IValue& value);
};

namespace {

/// Record functions take plain functions as callbacks, so the current watch is a thread-local.
thread_local LayerWatch::State* watching = nullptr;

bool is_batch_norm(std::string_view operation) {
  constexpr std::string_view kNamespace = "aten::";
  return operation.starts_with(kNamespace) &&
         std::ranges::count(kBatchNormOperations, operation.substr(kNamespace.size())) > 0;
}

/// @param inputs of aten::instance_norm
bool moves_statistics(c10::ArrayRef<const c10::IValue> inputs) {
  constexpr std::size_t kRunningMean = 3;
  constexpr std::size_t kUseInputStats = 5;
  if (inputs.size() <= kUseInputStats) return false;
  const c10::IValue& mean = inputs[kRunningMean];
  return mean.isTensor() && mean.toTensor().defined() && inputs[kUseInputStats].toBool();
}

}  // namespace

void LayerWatch::State::find_layer(const c10::IValue& value) {
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) find_layer(tensor);
  } else if (value.isTensor() && value.toTensor().defined()) {
    const auto found = layers.find(value.toTensor().unsafeGetTensorImpl());
    if (found != layers.end()) layer = found->second;
  }
}

void LayerWatch::State::begin(const at::RecordFunction& function) {
  ++depth;
  const std::string_view operation = function.name();
  // Instance normalisation calls batch normalisation with each sample as a batch.
  if (operation == "aten::instance_norm" && instance_norm == 0) instance_norm = depth;
  const bool normalises = is_batch_norm(operation);
  batch_norm = batch_norm || normalises;
  const auto inputs = function.inputs();
  if (operation == "aten::instance_norm")
    instance_statistics = instance_statistics || moves_statistics(inputs);
  if (normalises && instance_norm == 0 && inputs.size() > kTrainingArgument) {
    const c10::IValue& value = inputs[kTrainingArgument];
    batch_statistics = batch_statistics || (value.isBool() && value.toBool());
  }
  if (depth > 1 || layers.empty()) return;
  layer.clear();
  for (const c10::IValue& value : inputs) find_layer(value);
  start = Clock::now();
}

void LayerWatch::State::end() {
  if (depth == instance_norm) instance_norm = 0;
  if (--depth > 0 || layer.empty()) return;
  seconds[layer] += std::chrono::duration<double>(Clock::now() - start).count();
}

LayerWatch::LayerWatch(const Model* model) : state_(std::make_unique<State>()) {
  if (model)
    for (const NamedTensor& named : model->named_parameters())
      state_->layers[named.tensor.unsafeGetTensorImpl()] = layer_of(named.name);
  state_->outer = watching;
  watching = state_.get();
  state_->handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
            if (watching) watching->begin(function);
            return nullptr;
          },
          [](const at::RecordFunction&, at::ObserverContext*) {
            if (watching) watching->end();
          })
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION}));
}

LayerWatch::~LayerWatch() {
  at::removeCallback(state_->handle);
  watching = state_->outer;
}

bool LayerWatch::saw_batch_norm() const { return state_->batch_norm; }

bool LayerWatch::saw_batch_statistics() const { return state_->batch_statistics; }

bool LayerWatch::moved_instance_statistics() const { return state_->instance_statistics; }

const std::map<std::string, double>& LayerWatch::seconds() const { return state_->seconds; }

std::string layer_of(const std::string& parameter) {
  const auto dot = parameter.rfind('.');
  return dot == parameter.npos ? std::string() : parameter.substr(0, dot);
}

}  // namespace speedtorch::infinity

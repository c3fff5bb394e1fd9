#include "speedtorch/infinity/parameter_count.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdio>
#include <unordered_set>

#include "speedtorch/infinity/layer_watch.h"

namespace speedtorch::infinity {
namespace {

LayerCount& layer_named(std::vector<LayerCount>& layers, const std::string& name) {
  const auto found =
      std::find_if(layers.begin(), layers.end(), [&](const auto& layer) { return layer.layer == name; });
  return found == layers.end() ? layers.emplace_back(LayerCount{.layer = name}) : *found;
}

void add(LayerCount& to, const LayerCount& more) {
  to.elements += more.elements;
  to.trainable += more.trainable;
  to.tied += more.tied;
  to.bytes += more.bytes;
  to.seconds += more.seconds;
}

std::string line(const LayerCount& layer) {
  char text[200];
  std::snprintf(text, sizeof text, "%-28s %12lld %12lld %12lld %12lld %14lld %12.3f\n", layer.layer.c_str(),
                static_cast<long long>(layer.elements), static_cast<long long>(layer.trainable),
                static_cast<long long>(layer.frozen()), static_cast<long long>(layer.tied),
                static_cast<long long>(layer.bytes), layer.seconds * 1e3);
  return text;
}

}  // namespace

ParameterCount count_parameters(const Model& model) {
  ParameterCount count;
  std::unordered_set<const void*> seen;
  for (const NamedTensor& named : model.every_parameter()) {
    LayerCount& layer = layer_named(count.layers, layer_of(named.name));
    const std::int64_t elements = named.tensor.numel();
    if (!seen.insert(named.tensor.unsafeGetTensorImpl()).second) {
      layer.tied += elements;
      continue;
    }
    layer.elements += elements;
    layer.trainable += named.tensor.requires_grad() ? elements : 0;
    layer.bytes += elements * static_cast<std::int64_t>(named.tensor.element_size());
  }
  count.all.layer = "all";
  for (const LayerCount& layer : count.layers) add(count.all, layer);
  for (const NamedTensor& named : model.named_buffers())
    count.buffer_bytes += named.tensor.numel() * static_cast<std::int64_t>(named.tensor.element_size());
  return count;
}

ParameterCount count_parameters(const Model& model, const Tensors& inputs, int repeats) {
  const at::NoGradGuard no_grad;
  ParameterCount count = count_parameters(model);
  static_cast<void>(model(inputs));  // warm-up
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const LayerWatch watch(&model);
    static_cast<void>(model(inputs));
    for (LayerCount& layer : count.layers) {
      const auto found = watch.seconds().find(layer.layer);
      if (found == watch.seconds().end()) continue;
      layer.seconds = repeat == 0 ? found->second : std::min(layer.seconds, found->second);
    }
  }
  for (const LayerCount& layer : count.layers) count.all.seconds += layer.seconds;
  return count;
}

std::string to_string(const ParameterCount& count) {
  char head[200];
  std::snprintf(head, sizeof head, "%-28s %12s %12s %12s %12s %14s %12s\n", "layer", "elements", "trainable",
                "frozen", "tied", "bytes", "forward ms");
  std::string text = head;
  for (const LayerCount& layer : count.layers) text += line(layer);
  return text + line(count.all);
}

}  // namespace speedtorch::infinity

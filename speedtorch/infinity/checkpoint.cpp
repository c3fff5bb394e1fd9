#include "speedtorch/infinity/checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <sstream>

#include "speedtorch/error.h"
#include "speedtorch/files/archive.h"
#include "speedtorch/infinity/errors.h"
#include "speedtorch/system/new_file.h"

namespace speedtorch::infinity {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr std::int64_t kMostTensors = 1 << 24;  ///< limit for an optimizer's states and for generators

std::string names_of(const std::vector<NamedTensor>& tensors) {
  std::string names;
  for (const NamedTensor& named : tensors)
    names += named.name + " " + c10::str(named.tensor.scalar_type(), named.tensor.sizes()) + "\n";
  return names;
}

void write(OutputArchive& archive, const std::string& key, const std::vector<NamedTensor>& tensors) {
  archive.write(key + "_names", c10::IValue(names_of(tensors)));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    archive.write(key + std::to_string(i), tensors[i].tensor.detach(), true);
}

Tensors read(InputArchive& archive, const std::string& key, const std::vector<NamedTensor>& like) {
  c10::IValue names;
  archive.read(key + "_names", names);
  if (names.toStringRef() != names_of(like))
    throw InfinityBatchError("the checkpoint is of a model with other " + key + "; it has\n" +
                             names.toStringRef());
  Tensors found(like.size());
  for (std::size_t i = 0; i < like.size(); ++i) {
    archive.read(key + std::to_string(i), found[i], true);
    TORCH_CHECK(found[i].sizes() == like[i].tensor.sizes(), "'", like[i].name,
                "' has another shape than it says");
  }
  return found;
}

void put(const Tensors& values, const std::vector<NamedTensor>& into) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) into[i].tensor.detach().copy_(values[i]);
}

void write(OutputArchive& archive, const std::string& key, const Tensors& tensors) {
  archive.write(key + "_count", c10::IValue(static_cast<std::int64_t>(tensors.size())));
  for (std::size_t i = 0; i < tensors.size(); ++i) archive.write(key + std::to_string(i), tensors[i], true);
}

Tensors read(InputArchive& archive, const std::string& key) {
  c10::IValue count;
  archive.read(key + "_count", count);
  TORCH_CHECK(count.toInt() >= 0 && count.toInt() <= kMostTensors, "'", key, "' would be ", count.toInt(),
              " tensors");
  Tensors found(static_cast<std::size_t>(count.toInt()));
  for (std::size_t i = 0; i < found.size(); ++i) archive.read(key + std::to_string(i), found[i], true);
  return found;
}

/// All counts, as text. Tensors are stored separately.
std::string text_of(const TrainingState& state) {
  std::ostringstream text;
  const EpochRecord& epoch = state.so_far;
  text << state.place.epoch << ' ' << state.place.batch << ' ' << state.place.step << ' ' << epoch.samples
       << ' ' << epoch.micro_batches << ' ' << epoch.largest_micro_batch << ' ' << epoch.refusals << ' '
       << state.sizes.size() << '\n';
  for (const auto& [key, entry] : state.sizes)
    text << entry.size << ' ' << entry.good << ' ' << entry.bad << ' ' << entry.since_bad << ' '
         << entry.bad_had_worked << ' ' << entry.tried_again << ' ' << entry.fastest << ' '
         << entry.compared_to << ' ' << key << '\n';
  return text.str();
}

bool read_text(const std::string& written, TrainingState& state) {
  std::istringstream text(written);
  EpochRecord& epoch = state.so_far;
  std::size_t sizes = 0;
  text >> state.place.epoch >> state.place.batch >> state.place.step >> epoch.samples >>
      epoch.micro_batches >> epoch.largest_micro_batch >> epoch.refusals >> sizes;
  for (std::size_t i = 0; text && i < sizes; ++i) {
    MicroBatchSize::Entry entry;
    std::string key;
    text >> entry.size >> entry.good >> entry.bad >> entry.since_bad >> entry.bad_had_worked >>
        entry.tried_again >> entry.fastest >> entry.compared_to;
    std::getline(text >> std::ws, key);
    state.sizes[key] = entry;
  }
  return static_cast<bool>(text);
}

/// The sums of the epoch in binary form, which preserves every bit, NaN included.
at::Tensor sums_of(const EpochRecord& epoch) {
  at::Tensor sums = at::empty({static_cast<std::int64_t>(epoch.of_parts.size()) + 1}, at::kDouble);
  double* numbers = sums.mutable_data_ptr<double>();
  numbers[0] = epoch.loss;
  std::copy(epoch.of_parts.begin(), epoch.of_parts.end(), numbers + 1);
  return sums;
}

void read_sums(const at::Tensor& sums, EpochRecord& epoch) {
  TORCH_CHECK(sums.numel() > 0, "it has no sums of the epoch");
  const double* numbers = sums.const_data_ptr<double>();
  epoch.loss = numbers[0];
  epoch.of_parts.assign(numbers + 1, numbers + sums.numel());
}

std::string kinds_of(const std::vector<Optimizer>& optimizers) {
  std::string kinds;
  for (const Optimizer& optimizer : optimizers) kinds += optimizer.kind() + "\n";
  return kinds;
}

std::string key_of(std::size_t optimizer) { return "optimizer" + std::to_string(optimizer); }

void save_optimizer(OutputArchive& archive, const std::string& key, const Optimizer& optimizer) {
  if (!optimizer.stock()) return write(archive, key, optimizer.own().state());
  OutputArchive nested;
  optimizer.stock()->save(nested);
  archive.write(key, nested);
}

/// The contents of a checkpoint. All of it is read before anything is changed.
struct Loaded {
  Tensors parameters;
  Tensors buffers;
  std::vector<Tensors> own;  ///< states of custom optimizers
  std::vector<InputArchive> stock;
  TrainingState state;
};

Loaded read_all(InputArchive& archive, const Model& model, const std::vector<Optimizer>& optimizers) {
  Loaded loaded{.parameters = read(archive, "parameters", model.named_parameters()),
                .buffers = read(archive, "buffers", model.named_buffers()),
                .own = std::vector<Tensors>(optimizers.size()),
                .stock = std::vector<InputArchive>(optimizers.size()),
                .state = {}};
  c10::IValue kinds;
  archive.read("optimizers", kinds);
  if (kinds.toStringRef() != kinds_of(optimizers))
    throw InfinityBatchError("the checkpoint is of other optimizers; it has\n" + kinds.toStringRef() +
                             "and here are\n" + kinds_of(optimizers));
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    if (optimizers[i].stock())
      archive.read(key_of(i), loaded.stock[i]);
    else
      loaded.own[i] = read(archive, key_of(i));
    if (loaded.own[i].size() != (optimizers[i].stock() ? 0 : optimizers[i].own().state().size()))
      throw InfinityBatchError("the checkpoint has " + std::to_string(loaded.own[i].size()) +
                               " states of the custom optimizer, which has another number of them");
  }
  loaded.state.random = read(archive, "random");
  loaded.state.random_of_epoch = read(archive, "random_of_epoch");
  TORCH_CHECK(!loaded.state.random.empty() && !loaded.state.random_of_epoch.empty(),
              "it has no random states");
  at::Tensor sums;
  archive.read("sums", sums, true);
  read_sums(sums, loaded.state.so_far);
  c10::IValue text;
  archive.read("state", text);
  TORCH_CHECK(read_text(text.toStringRef(), loaded.state), "its state of training is incomplete");
  return loaded;
}

constexpr const char* kNotWhole = "is no whole checkpoint of this program";

}  // namespace

Tensors random_states(at::Device device) {
  Tensors states{at::detail::getDefaultCPUGenerator().get_state()};
  if (device.is_cuda()) states.push_back(at::globalContext().defaultGenerator(device).get_state());
  return states;
}

void set_random_states(const Tensors& states, at::Device device) {
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  cpu.set_state(states.at(0));
  if (!device.is_cuda() || states.size() < 2) return;
  at::Generator gpu = at::globalContext().defaultGenerator(device);
  gpu.set_state(states[1]);
}

void save_checkpoint(const std::string& path, const Model& model, const std::vector<Optimizer>& optimizers,
                     const TrainingState& state) {
  OutputArchive archive;
  write(archive, "parameters", model.named_parameters());
  write(archive, "buffers", model.named_buffers());
  for (std::size_t i = 0; i < optimizers.size(); ++i) save_optimizer(archive, key_of(i), optimizers[i]);
  archive.write("optimizers", c10::IValue(kinds_of(optimizers)));
  write(archive, "random", state.random);
  write(archive, "random_of_epoch", state.random_of_epoch);
  archive.write("state", c10::IValue(text_of(state)));
  archive.write("sums", sums_of(state.so_far), true);
  std::ostringstream bytes;
  archive.save_to(bytes);
  replace_file(path, bytes.str());
}

TrainingState load_checkpoint(const std::string& path, const Model& model,
                              const std::vector<Optimizer>& optimizers) {
  Loaded loaded = read_archive(path, kNotWhole, [&] {
    InputArchive archive;
    archive.load_from(path, at::Device(at::kCPU));
    return read_all(archive, model, optimizers);
  });
  put(loaded.parameters, model.named_parameters());
  put(loaded.buffers, model.named_buffers());
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    if (!optimizers[i].stock()) {
      optimizers[i].set_own_state(loaded.own[i]);
      continue;
    }
    try {
      optimizers[i].stock()->load(loaded.stock[i]);
    } catch (const std::exception& error) {
      refuse_archive(path, kNotWhole, error);
    }
    move_states(optimizers[i]);
  }
  return std::move(loaded.state);
}

}  // namespace speedtorch::infinity

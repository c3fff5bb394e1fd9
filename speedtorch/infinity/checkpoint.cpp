#include "speedtorch/infinity/checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <fcntl.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>

#include "speedtorch/error.h"
#include "speedtorch/infinity/errors.h"
#include "speedtorch/infinity_batch.h"
#include "speedtorch/new_file.h"

namespace speedtorch::infinity {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

void write_all(int file, const std::string& bytes, const std::string& name) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t more = ::write(file, bytes.data() + done, bytes.size() - done);
    if (more < 0) refuse_file(name, "cannot be written");
    done += static_cast<std::size_t>(more);
  }
}

/// Written beside under another name, on the disk, and then renamed, which is one step for the file system.
void replace_file(const std::string& path, const std::string& bytes) {
  const std::string beside = path + ".new";
  const std::string name = base_name(path);
  const Descriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) refuse_file(name, "cannot be written");
  write_all(file.get(), bytes, name);
  if (::fsync(file.get()) != 0 || std::rename(beside.c_str(), path.c_str()) != 0)
    refuse_file(name, "cannot be replaced");
  const std::string folder = path.substr(0, path.size() - name.size());
  const Descriptor in(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ::fsync(in.get());
}

std::string names_of(const std::vector<NamedTensor>& tensors) {
  std::string names;
  for (const NamedTensor& named : tensors) names += named.name + " " + c10::str(named.tensor.sizes()) + "\n";
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
    throw InfinityBatchError("the checkpoint is of a model with other " + key + ": it has\n" +
                             names.toStringRef());
  Tensors found(like.size());
  for (std::size_t i = 0; i < like.size(); ++i) archive.read(key + std::to_string(i), found[i], true);
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
  Tensors found(static_cast<std::size_t>(count.toInt()));
  for (std::size_t i = 0; i < found.size(); ++i) archive.read(key + std::to_string(i), found[i], true);
  return found;
}

/// Numbers as one text: what is no tensor is little.
std::string text_of(const TrainingState& state) {
  std::ostringstream text;
  text.precision(17);
  const EpochRecord& epoch = state.so_far;
  text << state.place.epoch << ' ' << state.place.batch << ' ' << state.place.step << ' ' << epoch.samples
       << ' ' << epoch.loss << ' ' << epoch.micro_batches << ' ' << epoch.refusals << ' '
       << epoch.of_parts.size();
  for (const double part : epoch.of_parts) text << ' ' << part;
  text << '\n';
  for (const auto& [key, entry] : state.sizes)
    text << entry.size << ' ' << entry.good << ' ' << entry.bad << ' ' << entry.since_bad << ' '
         << entry.bad_had_worked << ' ' << key << '\n';
  return text.str();
}

void read_text(const std::string& written, TrainingState& state) {
  std::istringstream text(written);
  EpochRecord& epoch = state.so_far;
  std::size_t parts = 0;
  text >> state.place.epoch >> state.place.batch >> state.place.step >> epoch.samples >> epoch.loss >>
      epoch.micro_batches >> epoch.refusals >> parts;
  epoch.of_parts.resize(parts);
  for (double& part : epoch.of_parts) text >> part;
  for (MicroBatchSize::Entry entry;
       text >> entry.size >> entry.good >> entry.bad >> entry.since_bad >> entry.bad_had_worked;) {
    std::string key;
    std::getline(text >> std::ws, key);
    state.sizes[key] = entry;
  }
}

void save_optimizer(OutputArchive& archive, const std::string& key, const Optimizer& optimizer) {
  if (!optimizer.stock()) return write(archive, key, optimizer.own().state());
  OutputArchive nested;
  optimizer.stock()->save(nested);
  archive.write(key, nested);
}

void load_optimizer(InputArchive& archive, const std::string& key, const Optimizer& optimizer) {
  if (optimizer.stock()) {
    InputArchive nested;
    archive.read(key, nested);
    optimizer.stock()->load(nested);
    return;
  }
  const at::NoGradGuard no_grad;
  const Tensors values = read(archive, key);
  const Tensors into = optimizer.own().state();
  if (values.size() != into.size())
    throw InfinityBatchError("the checkpoint has " + std::to_string(values.size()) +
                             " states of an optimizer that has " + std::to_string(into.size()));
  for (std::size_t i = 0; i < values.size(); ++i) into[i].copy_(values[i]);
}

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
  for (std::size_t i = 0; i < optimizers.size(); ++i)
    save_optimizer(archive, "optimizer" + std::to_string(i), optimizers[i]);
  write(archive, "random", state.random);
  write(archive, "random_of_epoch", state.random_of_epoch);
  archive.write("state", c10::IValue(text_of(state)));
  std::ostringstream bytes;
  archive.save_to(bytes);
  replace_file(path, bytes.str());
}

TrainingState load_checkpoint(const std::string& path, const Model& model,
                              const std::vector<Optimizer>& optimizers) {
  if (::access(path.c_str(), R_OK) != 0) refuse_file(base_name(path), "cannot be read");
  InputArchive archive;
  archive.load_from(path, at::Device(at::kCPU));
  const auto parameters = model.named_parameters();
  const auto buffers = model.named_buffers();
  const Tensors values = read(archive, "parameters", parameters);
  const Tensors of_buffers = read(archive, "buffers", buffers);
  put(values, parameters);
  put(of_buffers, buffers);
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    load_optimizer(archive, "optimizer" + std::to_string(i), optimizers[i]);
    move_states(optimizers[i]);
  }
  TrainingState state;
  state.random = read(archive, "random");
  state.random_of_epoch = read(archive, "random_of_epoch");
  c10::IValue text;
  archive.read("state", text);
  read_text(text.toStringRef(), state);
  return state;
}

void CheckpointEvery::stepped(const Place& place) {
  if (place.step % steps_ == 0) training_.save(path_);
}

}  // namespace speedtorch::infinity

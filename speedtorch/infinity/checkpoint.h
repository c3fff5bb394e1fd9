/// Saves and loads the state of training.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "speedtorch/infinity/listener.h"
#include "speedtorch/infinity/micro_batch_size.h"
#include "speedtorch/infinity/model.h"
#include "speedtorch/infinity/optimizer.h"

namespace speedtorch::infinity {

/// The state of training besides parameters and optimizer states.
struct TrainingState {
  Place place;
  Tensors random;           ///< of the default generators, now
  Tensors random_of_epoch;  ///< of the default generators at the beginning of the epoch, which determine the
                            ///< order of its batches
  std::map<std::string, MicroBatchSize::Entry> sizes;
  EpochRecord so_far;  ///< of the running epoch; its loss is the sum over samples
};

/// The states of the default generators: the CPU's and, if `device` is a GPU, the device's.
Tensors random_states(at::Device device);
void set_random_states(const Tensors& states, at::Device device);

/// Writes a file in LibTorch's format. Atomic: the file is the old one or the new one, complete and on the
/// disk. @throws FileError
void save_checkpoint(const std::string& path, const Model& model, const std::vector<Optimizer>& optimizers,
                     const TrainingState& state);

/// Restores parameters, buffers and states. If it throws, nothing was changed. @throws FileError if the file
/// cannot be read or is damaged; InfinityBatchError if it is of a model with other parameters (names, shapes,
/// dtypes) or of other optimizers
TrainingState load_checkpoint(const std::string& path, const Model& model,
                              const std::vector<Optimizer>& optimizers);

}  // namespace speedtorch::infinity

/// Training on a disk, to go on after the process is gone.
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

/// Where training was, besides parameters and states.
struct TrainingState {
  Place place;
  Tensors random;           ///< of the default generators now
  Tensors random_of_epoch;  ///< and when the epoch began: its order of batches is drawn from that
  std::map<std::string, MicroBatchSize::Entry> sizes;
  EpochRecord so_far;  ///< of the running epoch, its loss times its samples
};

/// The default generators' states: the CPU's, and the device's where that is a GPU.
Tensors random_states(at::Device device);
void set_random_states(const Tensors& states, at::Device device);

/// In LibTorch's format. The file of that name is the old one or the new one, whole, whatever happens
/// meanwhile: it is written beside, waited for on the disk, and given the name then. @throws FileError
void save_checkpoint(const std::string& path, const Model& model, const std::vector<Optimizer>& optimizers,
                     const TrainingState& state);

/// Puts parameters, buffers and states back. @throws, before anything is changed, FileError where it cannot
/// be read or is damaged; InfinityBatchError where it is of a model with other parameters (names, shapes,
/// dtypes) or of other optimizers
TrainingState load_checkpoint(const std::string& path, const Model& model,
                              const std::vector<Optimizer>& optimizers);

}  // namespace speedtorch::infinity

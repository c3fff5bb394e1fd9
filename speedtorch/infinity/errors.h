/// The errors of training with batches larger than memory.
#pragma once

#include "speedtorch/error.h"

namespace speedtorch::infinity {

/// What was given cannot be trained with, or was used in the wrong order. what() names the thing and the
/// cure. No gradient, parameter or state was changed.
class InfinityBatchError : public Error {
 public:
  using Error::Error;
};

/// Memory did not suffice although everything was tried that may be: the micro-batch was one sample, or its
/// size was fixed, or it was the optimizer's step. Parameters, states and gradients are as they were before
/// the call, so that it can be made again.
class OutOfMemory : public InfinityBatchError {
 public:
  using InfinityBatchError::InfinityBatchError;
};

}  // namespace speedtorch::infinity

/// Errors of training with batches larger than memory.
#pragma once

#include "speedtorch/error.h"

namespace speedtorch::infinity {

/// The arguments cannot be used for training, or a call was out of order. what() names the cause and the
/// cure. No gradient, parameter or state was changed.
struct InfinityBatchError : Error {
  using Error::Error;
};

/// Memory ran out after all permitted retries: the micro-batch had one sample, its size was fixed, or the
/// optimizer's step failed. Parameters, states and gradients are as before the call, which can be repeated.
struct OutOfMemory : InfinityBatchError {
  using InfinityBatchError::InfinityBatchError;
};

}  // namespace speedtorch::infinity

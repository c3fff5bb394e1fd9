/// The library's typed errors, beside those of the kernels (IndexError, ShapeError, CudaError).
#pragma once

#include "kernels/error.h"

namespace speedtorch {

/// Memory of the asked kind cannot be had: how much was asked, what the system said.
class MemoryError : public Error {
 public:
  using Error::Error;
};

/// The operation does not go between these placements or devices.
class PlacementError : public Error {
 public:
  using Error::Error;
};

/// A file cannot be opened, made, mapped or flushed, or is no longer what it was. Named without its folder.
class FileError : public Error {
 public:
  using Error::Error;
};

}  // namespace speedtorch

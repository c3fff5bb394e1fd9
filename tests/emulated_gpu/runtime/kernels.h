// The kernels that programs register, and their PTX, which is parsed when the first of a binary is asked for.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>

#include "tests/emulated_gpu/ptx.h"

namespace emulated_gpu {

/// The fat binary of one .cu file.
struct Binary {
  const void* wrapper = nullptr;
  bool parsed = false;
  std::unique_ptr<Module> module;
  int architecture = 0;  ///< of the PTX that runs
  std::string problem;   ///< why there is no module
};

/// A __global__ function as the program knows it.
struct RegisteredFunction {
  Binary* binary = nullptr;
  const char* name = nullptr;
  std::size_t most_dynamic_shared = std::size_t{48} << 10;
};

/// A __device__ or __constant__ variable as the program knows it.
struct RegisteredSymbol {
  Binary* binary = nullptr;
  const char* name = nullptr;
};

/// Guarded by the runtime's lock.
class Kernels {
 public:
  static Binary* add_binary(const void* wrapper);
  void add_function(const void* host, Binary* binary, const char* name);
  void add_symbol(const void* host, Binary* binary, const char* name);
  RegisteredFunction* function(const void* host);
  /// Returns the kernel, or null and says why.
  static const Kernel* kernel(RegisteredFunction& function);
  /// Returns the variable behind a symbol, or null and says why.
  const Variable* variable(const void* host);

 private:
  static void parse(Binary& binary);
  std::unordered_map<const void*, RegisteredFunction> functions_;
  std::unordered_map<const void*, RegisteredSymbol> symbols_;
};

}  // namespace emulated_gpu

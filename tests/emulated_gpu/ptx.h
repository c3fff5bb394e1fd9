/// PTX: parsing a module's text, and running one of its kernels on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/emulated_gpu/fault.h"
#include "tests/emulated_gpu/memory_view.h"

namespace emulated_gpu {

struct Code;  // decoded instructions (ptx/code.h)

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};

struct Parameter {
  std::size_t offset = 0, size = 0;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;  ///< where each lies in the buffer that a launch passes
  std::size_t parameter_bytes = 0;
  std::size_t static_shared = 0;  ///< bytes
  std::size_t local_bytes = 0;    ///< per thread
  unsigned most_threads = 1024;   ///< per block: `.maxntid`, or 1024
  std::shared_ptr<const Code> code;
};

/// A `.global` or `.const` variable. Its device address is the address of its bytes on the host.
struct Variable {
  std::size_t size = 0;
  bool read_only = false;
  std::byte* bytes = nullptr;
};

struct Module {
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
  std::map<std::string, Variable, std::less<>> variables;
  std::vector<std::unique_ptr<std::byte[]>> storage;  ///< what the variables' bytes lie in
};

/// @throws std::runtime_error that names the line and what is not known
std::unique_ptr<Module> parse_ptx(std::string_view text);

struct Launch {
  const Kernel* kernel = nullptr;
  Dim grid, block;
  std::size_t dynamic_shared = 0;
  const std::byte* parameters = nullptr;
  const MemoryView* memory = nullptr;
  std::uint64_t seed = 0;  ///< order of the blocks; 0: ascending
  bool find_races = false;
  bool find_unwritten = false;
};

struct Counts {
  std::uint64_t warp_instructions = 0, thread_instructions = 0;
};

/// Runs a grid to its end. @throws Fault
Counts run(const Launch& launch);

}  // namespace emulated_gpu

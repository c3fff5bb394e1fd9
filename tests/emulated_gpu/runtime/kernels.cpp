#include "tests/emulated_gpu/runtime/kernels.h"

#include <exception>

#include "tests/emulated_gpu/runtime/device.h"
#include "tests/emulated_gpu/runtime/fat_binary.h"
#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/settings.h"

namespace emulated_gpu {

Binary* Kernels::add_binary(const void* wrapper) {
  auto* const binary = new Binary;  // as long as the process, like the program's handle
  binary->wrapper = wrapper;
  return binary;
}

void Kernels::add_function(const void* host, Binary* binary, const char* name) {
  functions_[host] = RegisteredFunction{.binary = binary, .name = name};
}

void Kernels::add_symbol(const void* host, Binary* binary, const char* name) {
  symbols_[host] = {binary, name};
}

RegisteredFunction* Kernels::function(const void* host) {
  const auto found = functions_.find(host);
  return found == functions_.end() ? nullptr : &found->second;
}

void Kernels::parse(Binary& binary) {
  if (binary.parsed) return;
  binary.parsed = true;
  try {
    const auto ptx = ptx_of_fat_binary(binary.wrapper, compute_capability, settings().newest_ptx);
    binary.architecture = ptx.architecture;
    binary.module = parse_ptx(ptx.text);
  } catch (const std::exception& problem) {
    binary.problem = problem.what();
  }
}

const Kernel* Kernels::kernel(RegisteredFunction& function) {
  parse(*function.binary);
  if (function.binary->module == nullptr) {
    say(text("cannot run ", function.name, ": ", function.binary->problem));
    return nullptr;
  }
  const auto& kernels = function.binary->module->kernels;
  const auto found = kernels.find(function.name);
  if (found != kernels.end()) return found->second.get();
  say(text("cannot run ", function.name, ": its PTX has no such kernel"));
  return nullptr;
}

const Variable* Kernels::variable(const void* host) {
  const auto symbol = symbols_.find(host);
  if (symbol == symbols_.end()) {
    say("a symbol that no binary has registered");
    return nullptr;
  }
  auto& binary = *symbol->second.binary;
  parse(binary);
  if (binary.module != nullptr) {
    const auto found = binary.module->variables.find(symbol->second.name);
    if (found != binary.module->variables.end()) return &found->second;
  }
  say(text("no variable ", symbol->second.name, ": ",
           binary.problem.empty() ? "not in the PTX" : binary.problem));
  return nullptr;
}

}  // namespace emulated_gpu

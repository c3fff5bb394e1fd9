#include "harness/loaded_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

namespace stbench::harness {

std::string refusal(const LibraryMissing& missing, std::string_view source) {
  return fmt::format("not available here: {}; {}, and LD_LIBRARY_PATH says in which folder", missing.what(),
                     source);
}

LoadedLibrary::LoadedLibrary(std::string name, int flags)
    : name_(std::move(name)), library_(::dlopen(name_.c_str(), flags)) {
  if (library_ == nullptr) throw LibraryMissing(::dlerror());
}

LoadedLibrary::~LoadedLibrary() { ::dlclose(library_); }

LoadedLibrary::Symbol LoadedLibrary::find(const char* function) const {
  return {::dlsym(library_, function)};
}

LoadedLibrary::Symbol LoadedLibrary::need(const char* function) const {
  const auto found = find(function);
  if (found.address == nullptr) throw LibraryMissing(fmt::format("{} has no {}", name_, function));
  return found;
}

}  // namespace stbench::harness

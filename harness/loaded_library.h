/// A shared library that is loaded while the program runs, because a build must not need it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace stbench::harness {

/// The library cannot be loaded, or lacks a function; one line that names it.
struct LibraryMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Why a method that needs the library is not available.
/// @param source what to install, as in "NIXL has it (PyPI: nixl-cu13)"
std::string refusal(const LibraryMissing& missing, std::string_view source);

class LoadedLibrary {
 public:
  /// A function of the library, of the type that it is taken for.
  struct Symbol {
    void* address;
    template <class Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address);
    }
  };

  /// @param name as dlopen() takes it: a path, or a name that LD_LIBRARY_PATH can help to find
  /// @param flags of dlopen(). With RTLD_NODELETE the library stays loaded when this object ends.
  /// @throws LibraryMissing with the loader's words
  LoadedLibrary(std::string name, int flags);
  ~LoadedLibrary();
  LoadedLibrary(const LoadedLibrary&) = delete;
  LoadedLibrary& operator=(const LoadedLibrary&) = delete;

  /// Null if the library lacks the function.
  [[nodiscard]] Symbol find(const char* function) const;
  /// @throws LibraryMissing if the library lacks the function
  [[nodiscard]] Symbol need(const char* function) const;

 private:
  std::string name_;
  void* library_;
};

}  // namespace stbench::harness

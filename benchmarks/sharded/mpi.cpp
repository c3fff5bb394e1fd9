#include "benchmarks/sharded/mpi.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <stdexcept>

namespace stbench {
namespace {

// Handles are pointers with fixed values (MPI 5.0, chapter "Application Binary Interface").
using Handle = void*;
Handle handle(std::intptr_t value) { return reinterpret_cast<Handle>(value); }
Handle world() { return handle(0x101); }          // MPI_COMM_WORLD
Handle errors_return() { return handle(0x143); }  // MPI_ERRORS_RETURN
Handle byte() { return handle(0x247); }           // MPI_BYTE
constexpr int kThreadSerialized = 2048;           // MPI_THREAD_SERIALIZED
constexpr std::size_t kMaxErrorString = 512;      // MPI_MAX_ERROR_STRING

struct Functions {
  int (*init_thread)(int*, char***, int, int*) = nullptr;
  int (*finalize)() = nullptr;
  int (*comm_rank)(Handle, int*) = nullptr;
  int (*comm_size)(Handle, int*) = nullptr;
  int (*comm_set_errhandler)(Handle, Handle) = nullptr;
  int (*error_string)(int, char*, int*) = nullptr;
  int (*alltoallv)(const void*, const std::int64_t*, const std::intptr_t*, Handle, void*, const std::int64_t*,
                   const std::intptr_t*, Handle, Handle) = nullptr;
};

/// The library, or why it cannot be loaded. It stays loaded until the process ends.
struct Library {
  Functions functions;
  std::string reason;
};

constexpr auto kLibrary = "libmpi_abi.so.1";

template <class Function>
void find(void* library, const char* name, Function& function, std::string& reason) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr && reason.empty()) reason = fmt::format("{} has no {}", kLibrary, name);
}

Library loaded() {
  Library found;
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    found.reason = fmt::format(
        "not available here: {}; MPICH 5 has it (PyPI: mpich), and LD_LIBRARY_PATH says in which folder",
        ::dlerror());
    return found;
  }
  auto& [functions, reason] = found;
  find(library, "MPI_Init_thread", functions.init_thread, reason);
  find(library, "MPI_Finalize", functions.finalize, reason);
  find(library, "MPI_Comm_rank", functions.comm_rank, reason);
  find(library, "MPI_Comm_size", functions.comm_size, reason);
  find(library, "MPI_Comm_set_errhandler", functions.comm_set_errhandler, reason);
  find(library, "MPI_Error_string", functions.error_string, reason);
  find(library, "MPI_Alltoallv_c", functions.alltoallv, reason);
  return found;
}

const Library& library() {
  static const Library one = loaded();
  return one;
}

bool started_by_mpi() {
  for (const char* const variable : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

void require(const char* what, int error) {
  if (error == 0) return;  // MPI_SUCCESS
  std::array<char, kMaxErrorString + 1> text{};
  int length = 0;
  library().functions.error_string(error, text.data(), &length);
  throw std::runtime_error(fmt::format("{}: {}", what, text.data()));
}

std::vector<std::intptr_t> begins(const std::vector<std::int64_t>& bytes) {
  std::vector<std::intptr_t> found(bytes.size());
  std::exclusive_scan(bytes.begin(), bytes.end(), found.begin(), std::intptr_t{0});
  return found;
}

std::optional<Mpi>& one() {
  static std::optional<Mpi> mpi;
  return mpi;
}

}  // namespace

std::string Mpi::refusal() {
  if (!started_by_mpi())
    return "not available here: MPI has to start the ranks, as mpiexec.hydra -n 2 ./stbench does";
  return library().reason;
}

Mpi& Mpi::started(int rank, int size) {
  auto& mpi = one();
  if (mpi) return *mpi;
  if (const auto reason = refusal(); !reason.empty()) throw std::runtime_error(reason);
  const auto& call = library().functions;
  int provided = 0, its_rank = 0, its_size = 0;
  require("MPI_Init_thread", call.init_thread(nullptr, nullptr, kThreadSerialized, &provided));
  require("MPI_Comm_set_errhandler", call.comm_set_errhandler(world(), errors_return()));
  require("MPI_Comm_rank", call.comm_rank(world(), &its_rank));
  require("MPI_Comm_size", call.comm_size(world(), &its_size));
  mpi.emplace();
  if (its_rank != rank || its_size != size)
    throw std::runtime_error(fmt::format("rank {} of {} is rank {} of {} for {}: another MPI started it",
                                         rank, size, its_rank, its_size, kLibrary));
  return *mpi;
}

void Mpi::end() {
  if (!one()) return;
  one().reset();
  require("MPI_Finalize", library().functions.finalize());
}

void Mpi::all_to_all(const void* send, const std::vector<std::int64_t>& to, void* receive,
                     const std::vector<std::int64_t>& from) const {
  require("MPI_Alltoallv_c",
          library().functions.alltoallv(send, to.data(), begins(to).data(), byte(), receive, from.data(),
                                        begins(from).data(), byte(), world()));
}

}  // namespace stbench

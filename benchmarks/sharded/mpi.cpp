#include "benchmarks/sharded/mpi.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "harness/loaded_library.h"

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

constexpr auto kMpiLibrary = "libmpi_abi.so.1";

/// Once loaded, MPI stays until the process ends.
struct MpiLibrary : harness::LoadedLibrary {
  MpiLibrary() : LoadedLibrary(kMpiLibrary, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) {}

  int (*init_thread)(int*, char***, int, int*) = need("MPI_Init_thread");
  int (*finalize)() = need("MPI_Finalize");
  int (*comm_rank)(Handle, int*) = need("MPI_Comm_rank");
  int (*comm_size)(Handle, int*) = need("MPI_Comm_size");
  int (*comm_set_errhandler)(Handle, Handle) = need("MPI_Comm_set_errhandler");
  int (*error_string)(int, char*, int*) = need("MPI_Error_string");
  int (*alltoallv)(const void*, const std::int64_t*, const std::intptr_t*, Handle, void*, const std::int64_t*,
                   const std::intptr_t*, Handle, Handle) = need("MPI_Alltoallv_c");
};

/// @throws harness::LibraryMissing
const MpiLibrary& mpi_library() {
  static const MpiLibrary one;
  return one;
}

bool started_by_mpi() {
  for (const char* const variable : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

void require_mpi(const char* what, int error) {
  if (error == 0) return;  // MPI_SUCCESS
  std::array<char, kMaxErrorString + 1> text{};
  int length = 0;
  mpi_library().error_string(error, text.data(), &length);
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
  try {
    mpi_library();
  } catch (const harness::LibraryMissing& missing) {
    return harness::refusal(missing, "MPICH 5 has it (PyPI: mpich)");
  }
  return {};
}

Mpi& Mpi::started(int rank, int size) {
  auto& mpi = one();
  if (mpi) return *mpi;
  if (const auto reason = refusal(); !reason.empty()) throw std::runtime_error(reason);
  const auto& call = mpi_library();
  int provided = 0, its_rank = 0, its_size = 0;
  require_mpi("MPI_Init_thread", call.init_thread(nullptr, nullptr, kThreadSerialized, &provided));
  require_mpi("MPI_Comm_set_errhandler", call.comm_set_errhandler(world(), errors_return()));
  require_mpi("MPI_Comm_rank", call.comm_rank(world(), &its_rank));
  require_mpi("MPI_Comm_size", call.comm_size(world(), &its_size));
  mpi.emplace();
  if (its_rank != rank || its_size != size)
    throw std::runtime_error(fmt::format("rank {} of {} is rank {} of {} for {}: another MPI started it",
                                         rank, size, its_rank, its_size, kMpiLibrary));
  return *mpi;
}

void Mpi::end() {
  if (!one()) return;
  one().reset();
  require_mpi("MPI_Finalize", mpi_library().finalize());
}

void Mpi::all_to_all(const void* send, const std::vector<std::int64_t>& to, void* receive,
                     const std::vector<std::int64_t>& from) const {
  require_mpi("MPI_Alltoallv_c", mpi_library().alltoallv(send, to.data(), begins(to).data(), byte(), receive,
                                                         from.data(), begins(from).data(), byte(), world()));
}

}  // namespace stbench

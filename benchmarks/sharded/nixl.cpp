#include "benchmarks/sharded/nixl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "harness/loaded_library.h"

namespace stbench {
namespace {

// The part of NIXL's C interface that is used (src/bindings/rust/wrapper.h of NIXL 1.5). All handles are
// pointers.
using NixlStatus = int;
using Handle = void*;
constexpr NixlStatus kInProgress = 1;
constexpr int kHostMemory = 0, kRead = 0;

/// UCX loads its module for InfiniBand also where there is no such device, and the one of nixl-cu13 1.5.1
/// then loads a second libnl, Debian's. Their ends disturb each other: the process dies by SIGSEGV after
/// main().
void leave_out_needless_infiniband() {
  std::error_code no_matter;
  if (!std::filesystem::exists("/sys/class/infiniband", no_matter))
    ::setenv("UCX_MODULES", "^ib", /*overwrite=*/0);
}

/// Once loaded, NIXL stays until the process ends.
struct NixlLibrary : harness::LoadedLibrary {
  NixlLibrary() : LoadedLibrary("libnixl_capi.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) {}

  NixlStatus (*create_agent)(const char*, Handle*) = need("nixl_capi_create_agent");
  NixlStatus (*destroy_agent)(Handle) = need("nixl_capi_destroy_agent");
  NixlStatus (*create_params)(Handle*) = need("nixl_capi_create_params");
  NixlStatus (*destroy_params)(Handle) = need("nixl_capi_destroy_params");
  NixlStatus (*create_backend)(Handle, const char*, Handle, Handle*) = need("nixl_capi_create_backend");
  NixlStatus (*destroy_backend)(Handle) = need("nixl_capi_destroy_backend");
  NixlStatus (*create_reg_dlist)(int, Handle*) = need("nixl_capi_create_reg_dlist");
  NixlStatus (*destroy_reg_dlist)(Handle) = need("nixl_capi_destroy_reg_dlist");
  NixlStatus (*reg_dlist_add_desc)(Handle, std::uintptr_t, std::size_t, std::uint64_t, const void*,
                                   std::size_t) = need("nixl_capi_reg_dlist_add_desc");
  NixlStatus (*register_mem)(Handle, Handle, Handle) = need("nixl_capi_register_mem");
  NixlStatus (*get_local_md)(Handle, void**, std::size_t*) = need("nixl_capi_get_local_md");
  NixlStatus (*load_remote_md)(Handle, const void*, std::size_t, char**) = need("nixl_capi_load_remote_md");
  NixlStatus (*create_xfer_dlist)(int, Handle*) = need("nixl_capi_create_xfer_dlist");
  NixlStatus (*destroy_xfer_dlist)(Handle) = need("nixl_capi_destroy_xfer_dlist");
  NixlStatus (*xfer_dlist_add_desc)(Handle, std::uintptr_t, std::size_t,
                                    std::uint64_t) = need("nixl_capi_xfer_dlist_add_desc");
  NixlStatus (*create_xfer_req)(Handle, int, Handle, Handle, const char*, Handle*,
                                Handle) = need("nixl_capi_create_xfer_req");
  NixlStatus (*post_xfer_req)(Handle, Handle, Handle) = need("nixl_capi_post_xfer_req");
  NixlStatus (*get_xfer_status)(Handle, Handle) = need("nixl_capi_get_xfer_status");
  NixlStatus (*release_xfer_req)(Handle, Handle) = need("nixl_capi_release_xfer_req");
  NixlStatus (*destroy_xfer_req)(Handle) = need("nixl_capi_destroy_xfer_req");
};

/// @throws harness::LibraryMissing
const NixlLibrary& nixl_library() {
  static const NixlLibrary one = [] {
    leave_out_needless_infiniband();
    return NixlLibrary();
  }();
  return one;
}

void require_nixl(const char* what, NixlStatus status) {
  if (status < 0) throw std::runtime_error(fmt::format("NIXL cannot {} (status {})", what, status));
}

using Params = std::unique_ptr<void, decltype([](Handle one) { nixl_library().destroy_params(one); })>;
using Regions = std::unique_ptr<void, decltype([](Handle one) { nixl_library().destroy_reg_dlist(one); })>;
using Pieces = std::unique_ptr<void, decltype([](Handle one) { nixl_library().destroy_xfer_dlist(one); })>;
using Allocated = std::unique_ptr<void, decltype([](void* one) { std::free(one); })>;

Pieces new_pieces() {
  Handle list = nullptr;
  require_nixl("make a list of pieces", nixl_library().create_xfer_dlist(kHostMemory, &list));
  return Pieces(list);
}

void add_piece(const Pieces& list, std::uintptr_t address, std::size_t bytes) {
  require_nixl("describe a piece",
               nixl_library().xfer_dlist_add_desc(list.get(), address, bytes, /*device=*/0));
}

}  // namespace

std::string Nixl::refusal() {
  try {
    nixl_library();
  } catch (const harness::LibraryMissing& missing) {
    return harness::refusal(missing, "NIXL has it (PyPI: nixl-cu13)");
  }
  return {};
}

Nixl::Nixl(const std::string& name) {
  if (const auto reason = refusal(); !reason.empty()) throw std::runtime_error(reason);
  const auto& call = nixl_library();
  require_nixl("make an agent", call.create_agent(name.c_str(), &agent_));
  try {
    Handle params = nullptr;
    require_nixl("make parameters", call.create_params(&params));
    const Params owner(params);
    require_nixl("start UCX", call.create_backend(agent_, "UCX", params, &backend_));
  } catch (...) {
    call.destroy_agent(agent_);
    throw;
  }
}

Nixl::~Nixl() {
  nixl_library().destroy_agent(agent_);
  nixl_library().destroy_backend(backend_);  // the handle alone; the agent owned what it stands for
}

void Nixl::add(void* memory, std::size_t bytes) {
  const auto& call = nixl_library();
  Handle list = nullptr;
  require_nixl("make a list of memory", call.create_reg_dlist(kHostMemory, &list));
  const Regions owner(list);
  require_nixl("describe memory",
               call.reg_dlist_add_desc(list, reinterpret_cast<std::uintptr_t>(memory), bytes,
                                       /*device=*/0, nullptr, 0));
  require_nixl("register memory", call.register_mem(agent_, list, nullptr));
}

std::string Nixl::description() const {
  void* bytes = nullptr;
  std::size_t size = 0;
  require_nixl("describe its agent", nixl_library().get_local_md(agent_, &bytes, &size));
  const Allocated owner(bytes);
  return {static_cast<const char*>(bytes), size};
}

void Nixl::meet(const std::string& description) {
  char* name = nullptr;
  require_nixl("meet an agent",
               nixl_library().load_remote_md(agent_, description.data(), description.size(), &name));
  const Allocated owner(name);
}

Nixl::Read Nixl::read(const std::string& agent, std::span<const Piece> pieces, std::size_t bytes) {
  const auto& call = nixl_library();
  const auto here = new_pieces(), there = new_pieces();
  for (const auto& piece : pieces) {
    add_piece(here, piece.here, bytes);
    add_piece(there, piece.there, bytes);
  }
  Handle request = nullptr;
  require_nixl("prepare a read", call.create_xfer_req(agent_, kRead, here.get(), there.get(), agent.c_str(),
                                                      &request, nullptr));
  Read read(*this, request);
  const auto status = call.post_xfer_req(agent_, request, nullptr);
  require_nixl("begin a read", status);
  read.done_ = status != kInProgress;
  return read;
}

Nixl::Read::Read(Read&& other) noexcept
    : nixl_(other.nixl_), request_(std::exchange(other.request_, nullptr)), done_(other.done_) {}

Nixl::Read::~Read() {
  if (request_ == nullptr) return;
  nixl_library().release_xfer_req(nixl_->agent_, request_);
  nixl_library().destroy_xfer_req(request_);
}

void Nixl::Read::wait(std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (!done_) {
    const auto status = nixl_library().get_xfer_status(nixl_->agent_, request_);
    require_nixl("read", status);
    done_ = status != kInProgress;
    if (!done_ && std::chrono::steady_clock::now() > until)
      throw std::runtime_error(fmt::format("NIXL did not end a read within {} ms", timeout.count()));
  }
}

}  // namespace stbench

#include "speedtorch/memory/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "speedtorch/error.h"
#include "speedtorch/memory/cuda_memory.h"
#include "speedtorch/system/limits.h"
#include "speedtorch/system/mapping.h"
#include "speedtorch/system/system_files.h"

namespace speedtorch {
namespace {

/// Creates an unnamed file of `bytes` bytes in memory.
int open_memory(const std::string& kind, std::int64_t bytes) {
  require_file_size(kind + " memory", bytes);
  require_memory(kind + " memory", bytes, MemoryUse::shared);
  const int fd = ::memfd_create("stbench", MFD_CLOEXEC);
  if (fd < 0) refuse_memory(kind, bytes, "memfd_create");
  return fd;
}

/// A memfd, mapped at a multiple of 2 MiB, which huge pages need.
class SharedMemory final : public Memory {
 public:
  SharedMemory(Placement placement, std::int64_t bytes)
      : Memory(bytes),
        placement_(placement),
        file_(open_memory(kind(), bytes)),
        mapping_(kind(), bytes, PROT_NONE) {
    if (::ftruncate(file_.get(), bytes) != 0) refuse_memory(kind(), bytes, "ftruncate");
    if (::mmap(data(), static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               file_.get(), 0) == MAP_FAILED)
      refuse_memory(kind(), bytes, "mmap");
    advise_pages(placement, data(), bytes);
  }
  [[nodiscard]] Placement placement() const override { return placement_; }
  [[nodiscard]] std::byte* data() const override { return mapping_.data(); }
  [[nodiscard]] int shared_fd() const override { return file_.get(); }

 private:
  [[nodiscard]] std::string kind() const { return "shared " + std::string(to_string(placement_)); }

  Placement placement_;
  Descriptor file_;
  AlignedMapping mapping_;
};

}  // namespace

std::shared_ptr<Memory> allocate_shared(Placement placement, std::int64_t bytes, at::Device device) {
  require_bytes(bytes);
  if (placement == Placement::pageable || placement == Placement::hugepage)
    return std::make_shared<SharedMemory>(placement, bytes);
  if (placement == Placement::pinned)
    return pin(std::make_shared<SharedMemory>(Placement::hugepage, bytes), device);
  throw PlacementError("shared memory can be pageable, hugepage or pinned, not " +
                       std::string(to_string(placement)));
}

std::string huge_shared_pages_refusal(const std::string& setting) {
  const auto chosen = SystemFiles().choice(setting).value_or("");
  if (chosen.empty())
    return "this kernel has no huge pages for memory that processes share; pageable memory can be shared";
  if (chosen != "never" && chosen != "deny") return {};
  return "it shares the table with another process, and huge pages for such memory are off (" + chosen +
         "); as root: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled";
}

}  // namespace speedtorch

#include "speedtorch/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/memory/cuda_memory.h"
#include "speedtorch/system/limits.h"
#include "speedtorch/system/mapping.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/system/system_files.h"

namespace speedtorch {
namespace {

/// Creates an unnamed file of `bytes` bytes in memory.
Descriptor open_memory(const std::string& kind, std::int64_t bytes) {
  require_file_size(kind + " memory", bytes);
  require_memory(kind + " memory", bytes, MemoryUse::shared);
  Descriptor file(::memfd_create("stbench", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) refuse_memory(kind, bytes, "memfd_create");
  if (::ftruncate(file.get(), bytes) != 0) refuse_memory(kind, bytes, "ftruncate");
  return file;
}

std::string kind_of(Placement placement) { return "shared " + std::string(to_string(placement)); }

/// Bytes of a file, mapped at a multiple of 2 MiB, which huge pages need.
class SharedMemory final : public Memory {
 public:
  SharedMemory(Placement placement, Descriptor file, std::int64_t offset, std::int64_t bytes, int protection)
      : Memory(bytes),
        placement_(placement),
        file_(std::move(file)),
        offset_(offset),
        writable_((protection & PROT_WRITE) != 0),
        mapping_(kind_of(placement), offset + bytes, PROT_NONE) {
    if (::mmap(mapping_.data(), static_cast<std::size_t>(offset + bytes), protection, MAP_SHARED | MAP_FIXED,
               file_.get(), 0) == MAP_FAILED)
      refuse_memory(kind_of(placement), bytes, "mmap");
    if (placement != Placement::mapped) advise_pages(placement, data(), bytes);
  }
  [[nodiscard]] Placement placement() const override { return placement_; }
  [[nodiscard]] std::byte* data() const override { return mapping_.data() + offset_; }
  [[nodiscard]] int shared_fd() const override { return in_file() ? -1 : file_.get(); }
  [[nodiscard]] int file_fd() const override { return in_file() ? file_.get() : -1; }
  [[nodiscard]] std::int64_t file_offset() const override { return offset_; }
  [[nodiscard]] bool writable() const override { return writable_; }
  void check() const override {
    // The size of memory without a name is sealed.
    if (in_file()) require_size("the file of a shared table", file_.get(), offset_ + bytes());
  }

 private:
  [[nodiscard]] bool in_file() const { return placement_ == Placement::mapped; }

  Placement placement_;
  Descriptor file_;
  std::int64_t offset_;
  bool writable_;
  AlignedMapping mapping_;
};

}  // namespace

std::shared_ptr<Memory> allocate_shared(Placement placement, std::int64_t bytes, at::Device device) {
  require_bytes(bytes);
  const auto in_memory = [bytes](Placement pages) {
    return std::make_shared<SharedMemory>(pages, open_memory(kind_of(pages), bytes), 0, bytes,
                                          PROT_READ | PROT_WRITE);
  };
  if (placement == Placement::pageable || placement == Placement::hugepage) return in_memory(placement);
  if (placement == Placement::pinned) return pin(in_memory(Placement::hugepage), device);
  throw PlacementError("shared memory can be pageable, hugepage or pinned, not " +
                       std::string(to_string(placement)));
}

std::shared_ptr<Memory> map_shared(Placement placement, Descriptor file, std::int64_t offset,
                                   std::int64_t bytes, bool writable) {
  require_bytes(bytes);
  require_memory(kind_of(placement) + " memory", offset + bytes, MemoryUse::file);
  require_size("the memory of a shared table", file.get(), offset + bytes);
  return std::make_shared<SharedMemory>(placement, std::move(file), offset, bytes,
                                        writable ? PROT_READ | PROT_WRITE : PROT_READ);
}

void seal_size(int fd) {
  constexpr int size = F_SEAL_SHRINK | F_SEAL_GROW;
  const int found = ::fcntl(fd, F_GET_SEALS);
  if (found >= 0 && (found & size) == size) return;  // one that is open for reading takes no further seals
  if (::fcntl(fd, F_ADD_SEALS, size) != 0) refuse_file("memory to share", "cannot be sealed");
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

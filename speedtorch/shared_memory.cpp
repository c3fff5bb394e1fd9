#include "speedtorch/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "speedtorch/cuda_memory.h"
#include "speedtorch/error.h"

namespace speedtorch {
namespace {

constexpr std::size_t huge = std::size_t{2} << 20;

/// A memfd, mapped at a multiple of 2 MiB: elsewhere its huge pages could not be mapped as such.
class SharedMemory final : public Memory {
 public:
  SharedMemory(Placement placement, std::int64_t bytes)
      : Memory(bytes), placement_(placement), size_(static_cast<std::size_t>(bytes)) {
    fd_ = ::memfd_create("stbench", MFD_CLOEXEC);
    if (fd_ < 0) refuse("memfd_create");
    if (::ftruncate(fd_, bytes) != 0) refuse("ftruncate");
    length_ = size_ + huge;
    reserved_ = ::mmap(nullptr, length_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved_ == MAP_FAILED) refuse("mmap");
    const auto address = (reinterpret_cast<std::uintptr_t>(reserved_) + huge - 1) / huge * huge;
    data_ = reinterpret_cast<std::byte*>(address);
    if (::mmap(data_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0) == MAP_FAILED)
      refuse("mmap");
    // A wish, as for private memory: pages_got() reports what came.
    ::madvise(data_, size_, placement == Placement::hugepage ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  ~SharedMemory() override { release(); }
  [[nodiscard]] Placement placement() const override { return placement_; }
  [[nodiscard]] std::byte* data() const override { return data_; }
  [[nodiscard]] int shared_fd() const override { return fd_; }

 private:
  [[noreturn]] void refuse(const char* call) {
    const std::string answer = std::strerror(errno);
    release();
    throw MemoryError("cannot allocate " + std::to_string(bytes()) + " bytes of shared " +
                      std::string(to_string(placement_)) + " memory: " + call + ": " + answer);
  }
  void release() const {
    if (reserved_ != MAP_FAILED) ::munmap(reserved_, length_);
    if (fd_ >= 0) ::close(fd_);
  }

  Placement placement_;
  std::size_t size_, length_ = 0;
  int fd_ = -1;
  void* reserved_ = MAP_FAILED;
  std::byte* data_ = nullptr;
};

}  // namespace

std::shared_ptr<Memory> allocate_shared(Placement placement, std::int64_t bytes, at::Device device) {
  if (bytes <= 0)
    throw MemoryError("memory of " + std::to_string(bytes) + " bytes was asked for; at least 1 is needed");
  if (placement == Placement::pageable || placement == Placement::hugepage)
    return std::make_shared<SharedMemory>(placement, bytes);
  if (placement == Placement::pinned)
    return pin(std::make_shared<SharedMemory>(Placement::hugepage, bytes), device);
  throw PlacementError("memory of another process can be pageable, hugepage or pinned, not " +
                       std::string(to_string(placement)));
}

std::string huge_shared_pages_refusal(const std::string& setting) {
  std::string mode;
  std::getline(std::ifstream(setting), mode);
  const auto begin = mode.find('['), end = mode.find(']');
  const auto chosen = begin == std::string::npos || end == std::string::npos || end < begin
                          ? std::string()
                          : mode.substr(begin + 1, end - begin - 1);
  if (chosen.empty())
    return "this kernel has no huge pages for memory that processes share; pageable memory can be shared";
  if (chosen != "never" && chosen != "deny") return {};
  return "it shares the table with another process, and huge pages for such memory are off (" + chosen +
         "); as root: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled";
}

}  // namespace speedtorch

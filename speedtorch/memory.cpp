#include "speedtorch/memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "speedtorch/cuda_memory.h"
#include "speedtorch/error.h"

namespace speedtorch {
namespace {

std::string sizes_text(at::IntArrayRef sizes) {
  std::string text;
  for (const auto size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

[[noreturn]] void refuse(Placement placement, std::int64_t bytes, const std::string& call) {
  throw MemoryError("cannot allocate " + std::to_string(bytes) + " bytes of " +
                    std::string(to_string(placement)) + " memory: " + call + ": " + std::strerror(errno));
}

class LibTorchMemory final : public Memory {
 public:
  explicit LibTorchMemory(std::int64_t bytes) : Memory(bytes), tensor_(at::empty({bytes}, at::kByte)) {}
  [[nodiscard]] Placement placement() const override { return Placement::libtorch; }
  [[nodiscard]] std::byte* data() const override { return static_cast<std::byte*>(tensor_.data_ptr()); }

 private:
  at::Tensor tensor_;
};

/// Anonymous pages of the asked kind. Aligned to 2 MiB, so that huge pages can begin at the first byte.
class AnonymousMemory final : public Memory {
 public:
  AnonymousMemory(Placement placement, std::int64_t bytes) : Memory(bytes), placement_(placement) {
    constexpr std::size_t huge = std::size_t{2} << 20;
    const auto size = static_cast<std::size_t>(bytes);
    length_ = size + huge;
    mapping_ =
        ::mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping_ == MAP_FAILED) refuse(placement, bytes, "mmap");
    const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
    data_ = reinterpret_cast<std::byte*>((address + huge - 1) / huge * huge);
    // A wish: where the kernel was built without transparent huge pages it fails, and pages_got() reports
    // what came.
    ::madvise(data_, size, placement == Placement::hugepage ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  ~AnonymousMemory() override { ::munmap(mapping_, length_); }
  [[nodiscard]] Placement placement() const override { return placement_; }
  [[nodiscard]] std::byte* data() const override { return data_; }

 private:
  Placement placement_;
  void* mapping_ = nullptr;
  std::size_t length_ = 0;
  std::byte* data_ = nullptr;
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

int open_unnamed(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  std::string name = folder + "/.stbench-XXXXXX";  // file systems without O_TMPFILE (NFS, overlay before 6.x)
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

/// A file of exactly `bytes`, its blocks reserved, mapped shared. It has no name: nothing is left when the
/// process dies.
class MappedMemory final : public Memory {
 public:
  MappedMemory(std::int64_t bytes, const std::string& folder) : Memory(bytes) {
    const Descriptor file(open_unnamed(folder));
    if (file.get() < 0) refuse(Placement::mapped, bytes, "cannot create a file in '" + folder + "'");
    // Reserved now, because a full disk would be a SIGBUS at some later write through the mapping.
    if (const int error = ::posix_fallocate(file.get(), 0, bytes); error != 0) {
      errno = error;
      refuse(Placement::mapped, bytes, "posix_fallocate");
    }
    void* mapping =
        ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (mapping == MAP_FAILED) refuse(Placement::mapped, bytes, "mmap");
    data_ = static_cast<std::byte*>(mapping);
  }
  ~MappedMemory() override { ::munmap(data_, static_cast<std::size_t>(bytes())); }
  [[nodiscard]] Placement placement() const override { return Placement::mapped; }
  [[nodiscard]] std::byte* data() const override { return data_; }

 private:
  std::byte* data_ = nullptr;
};

}  // namespace

at::Tensor Memory::view(at::IntArrayRef sizes, at::ScalarType dtype, at::Device on) const {
  const auto needed = c10::multiply_integers(sizes) * static_cast<std::int64_t>(c10::elementSize(dtype));
  if (needed > bytes_) {
    throw ShapeError("a tensor of " + sizes_text(sizes) + " needs " + std::to_string(needed) +
                     " bytes, the memory has " + std::to_string(bytes_));
  }
  return at::from_blob(
      data(), sizes, [owner = shared_from_this()](void*) {}, at::TensorOptions().dtype(dtype).device(on), on);
}

at::Tensor Memory::host_tensor(at::IntArrayRef sizes, at::ScalarType dtype) const {
  if (!on_host()) throw PlacementError("device memory has no host view; copy it to the host first");
  return view(sizes, dtype, at::kCPU);
}

std::shared_ptr<Memory> allocate(Placement placement, std::int64_t bytes, at::Device device,
                                 const std::string& folder) {
  if (bytes <= 0)
    throw MemoryError("memory of " + std::to_string(bytes) + " bytes was asked for; at least 1 is needed");
  switch (placement) {
    case Placement::libtorch:
      return std::make_shared<LibTorchMemory>(bytes);
    case Placement::pageable:
    case Placement::hugepage:
      return std::make_shared<AnonymousMemory>(placement, bytes);
    case Placement::mapped:
      return std::make_shared<MappedMemory>(bytes, folder.empty() ? "/var/tmp" : folder);
    case Placement::pinned:
      return allocate_pinned(bytes, device);
    case Placement::device:
      return allocate_device(bytes, device);
  }
  throw PlacementError("unknown placement");
}

}  // namespace speedtorch

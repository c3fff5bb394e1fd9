#include "speedtorch/memory/memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "speedtorch/error.h"
#include "speedtorch/memory/cuda_memory.h"
#include "speedtorch/system/limits.h"
#include "speedtorch/system/mapping.h"
#include "speedtorch/system/new_file.h"

namespace speedtorch {
namespace {

std::string sizes_text(at::IntArrayRef sizes) {
  std::string text;
  for (const auto size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

class LibTorchMemory final : public Memory {
 public:
  explicit LibTorchMemory(std::int64_t bytes) : Memory(bytes), tensor_(make(bytes)) {}
  [[nodiscard]] Placement placement() const override { return Placement::libtorch; }
  [[nodiscard]] std::byte* data() const override { return static_cast<std::byte*>(tensor_.data_ptr()); }

 private:
  static at::Tensor make(std::int64_t bytes) {
    try {
      return at::empty({bytes}, at::kByte);
    } catch (const c10::Error& error) {  // of its allocator, or of one that caps it
      throw MemoryError("cannot allocate " + std::to_string(bytes) +
                        " bytes of libtorch memory: " + error.what_without_backtrace());
    }
  }

  at::Tensor tensor_;
};

/// Anonymous pages of the asked kind.
class AnonymousMemory final : public Memory {
 public:
  AnonymousMemory(Placement placement, std::int64_t bytes)
      : Memory(bytes),
        placement_(placement),
        mapping_(std::string(to_string(placement)), bytes, PROT_READ | PROT_WRITE) {
    wish_pages(placement, data(), bytes);
  }
  [[nodiscard]] Placement placement() const override { return placement_; }
  [[nodiscard]] std::byte* data() const override { return mapping_.data(); }

 private:
  Placement placement_;
  AlignedMapping mapping_;
};

/// Of its owner alone: what is in memory is nobody else's.
Descriptor open_unnamed(const std::string& folder) {
  const std::string place = folder + "/stbench-memory";  // what its name is made of where it must have one
  remove_and_name_leftovers(place);
  const UnfinishedFile file(place, Temporary::unnamed_where_possible, 0600);
  errno = file.error();
  return Descriptor(errno != 0 ? -1 : ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
}

/// A file of exactly `bytes`, its blocks reserved, without a name: nothing is left when the process dies.
Descriptor make_unnamed(const std::string& folder, std::int64_t bytes) {
  require_memory("mapped memory", bytes, MemoryUse::file);
  require_disk("mapped memory", folder, bytes);
  Descriptor file = open_unnamed(folder);
  if (!file.valid()) refuse_memory("mapped", bytes, "cannot create a file in '" + folder + "'");
  // Reserved now, because a full disk would be a SIGBUS at some later write through the mapping.
  if (const int error = ::posix_fallocate(file.get(), 0, bytes); error != 0) {
    errno = error;
    refuse_memory("mapped", bytes, "posix_fallocate");
  }
  return file;
}

class MappedMemory final : public Memory {
 public:
  MappedMemory(std::int64_t bytes, const std::string& folder)
      : Memory(bytes),
        file_(make_unnamed(folder, bytes)),
        mapping_(file_.get(), bytes, PROT_READ | PROT_WRITE) {}
  [[nodiscard]] Placement placement() const override { return Placement::mapped; }
  [[nodiscard]] std::byte* data() const override { return mapping_.data(); }
  [[nodiscard]] int file_fd() const override { return file_.get(); }

 private:
  Descriptor file_;
  FileMapping mapping_;
};

}  // namespace

at::Tensor Memory::view(at::IntArrayRef sizes, at::ScalarType dtype, at::Device on) const {
  const auto needed = c10::multiply_integers(sizes) * static_cast<std::int64_t>(c10::elementSize(dtype));
  if (needed > bytes_) {
    throw ShapeError("a tensor of " + sizes_text(sizes) + " needs " + std::to_string(needed) +
                     " bytes, the memory has " + std::to_string(bytes_));
  }
  // The memory outlives a caller's inference mode, whose tensors count no versions: what was written there
  // would be unseen by the graphs outside.
  const c10::InferenceMode counted(false);
  auto seen = new_view(sizes, dtype, on);
  seen.unsafeGetTensorImpl()->set_version_counter(version_);
  return seen;
}

at::Tensor Memory::new_view(at::IntArrayRef sizes, at::ScalarType dtype, at::Device on) const {
  return at::from_blob(
      data(), sizes, [owner = shared_from_this()](void*) {}, at::TensorOptions().dtype(dtype).device(on), on);
}

at::Tensor Memory::host_tensor(at::IntArrayRef sizes, at::ScalarType dtype) const {
  if (!on_host()) throw PlacementError("device memory has no host view; copy it to the host first");
  return view(sizes, dtype, at::kCPU);
}

std::shared_ptr<Memory> allocate(Placement placement, std::int64_t bytes, at::Device device,
                                 const std::string& folder) {
  require_bytes(bytes);
  switch (placement) {
    case Placement::libtorch:
      require_memory("libtorch memory", bytes, MemoryUse::anonymous);
      return std::make_shared<LibTorchMemory>(bytes);
    case Placement::pageable:
    case Placement::hugepage:
      require_memory(std::string(to_string(placement)) + " memory", bytes, MemoryUse::anonymous);
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

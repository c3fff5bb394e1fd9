#include "speedtorch/memory/host_memory.h"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "speedtorch/error.h"
#include "speedtorch/system/limits.h"
#include "speedtorch/system/mapping.h"
#include "speedtorch/system/new_file.h"

namespace speedtorch {
namespace {

class LibTorchMemory final : public Memory {
 public:
  explicit LibTorchMemory(std::int64_t bytes) : Memory(bytes), tensor_(make(bytes)) {}
  [[nodiscard]] Placement placement() const override { return Placement::libtorch; }
  [[nodiscard]] std::byte* data() const override { return static_cast<std::byte*>(tensor_.data_ptr()); }

 private:
  static at::Tensor make(std::int64_t bytes) {
    try {
      return at::empty({bytes}, at::kByte);
    } catch (const c10::Error& error) {  // from LibTorch's allocator, or from one that caps it
      throw MemoryError("cannot allocate " + std::to_string(bytes) +
                        " bytes of libtorch memory: " + error.what_without_backtrace());
    }
  }

  at::Tensor tensor_;
};

/// Anonymous pages of one kind.
class AnonymousMemory final : public Memory {
 public:
  AnonymousMemory(Placement placement, std::int64_t bytes)
      : Memory(bytes),
        placement_(placement),
        mapping_(std::string(to_string(placement)), bytes, PROT_READ | PROT_WRITE) {
    advise_pages(placement, data(), bytes);
  }
  [[nodiscard]] Placement placement() const override { return placement_; }
  [[nodiscard]] std::byte* data() const override { return mapping_.data(); }

 private:
  Placement placement_;
  AlignedMapping mapping_;
};

/// Readable by its owner alone, because memory is private.
Descriptor open_unnamed(const std::string& folder) {
  const std::string place = folder + "/stbench-memory";  // the base of its temporary name, where it needs one
  remove_leftovers_and_warn(place);
  const UnfinishedFile file(place, Temporary::unnamed_where_possible, 0600);
  errno = file.error();
  return Descriptor(errno != 0 ? -1 : ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
}

/// A file of exactly `bytes` without a name, its blocks reserved. Nothing is left if the process dies.
Descriptor make_unnamed(const std::string& folder, std::int64_t bytes) {
  require_memory("mapped memory", bytes, MemoryUse::file);
  require_disk("mapped memory", folder, bytes);
  Descriptor file = open_unnamed(folder);
  if (!file.valid()) refuse_memory("mapped", bytes, "cannot create a file in '" + folder + "'");
  // Reserve now: a full disk would be a SIGBUS at some later write through the mapping.
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
        mapping_(file_.get(), 0, bytes, PROT_READ | PROT_WRITE) {}
  [[nodiscard]] Placement placement() const override { return Placement::mapped; }
  [[nodiscard]] std::byte* data() const override { return mapping_.data(); }
  [[nodiscard]] int file_fd() const override { return file_.get(); }
  void check() const override { require_size("the file of a mapped table", file_.get(), bytes()); }

 private:
  Descriptor file_;
  FileMapping mapping_;
};

}  // namespace

std::shared_ptr<Memory> allocate_libtorch(std::int64_t bytes) {
  require_memory("libtorch memory", bytes, MemoryUse::anonymous);
  return std::make_shared<LibTorchMemory>(bytes);
}

std::shared_ptr<Memory> allocate_pages(Placement kind, std::int64_t bytes) {
  require_memory(std::string(to_string(kind)) + " memory", bytes, MemoryUse::anonymous);
  return std::make_shared<AnonymousMemory>(kind, bytes);
}

std::shared_ptr<Memory> allocate_mapped(std::int64_t bytes, const std::string& folder) {
  return std::make_shared<MappedMemory>(bytes, folder.empty() ? "/var/tmp" : folder);
}

}  // namespace speedtorch

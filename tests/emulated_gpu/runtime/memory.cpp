#include "tests/emulated_gpu/runtime/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/emulated_gpu/runtime/host_mappings.h"
#include "tests/emulated_gpu/runtime/messages.h"

namespace emulated_gpu {
namespace {

/// Addresses are given out once, so that memory which was freed stays known as such.
constexpr std::uint64_t address_space = 1ULL << 43;
constexpr std::uint64_t page = 4096;
constexpr std::uint64_t large_page = 2ULL << 20;
/// More of an allocation is not filled, because it would become resident.
constexpr std::uint64_t most_filled = 64ULL << 20;
constexpr int fresh_byte = 0xCD;
constexpr std::uint64_t granule = 512;  ///< of the device's memory that is in use

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }
std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

const char* name_of(MemoryKind kind) {
  if (kind == MemoryKind::device) return "device memory";
  return kind == MemoryKind::pinned ? "pinned memory" : "registered memory";
}

std::string describe(const Allocation& memory) {
  std::string where = text(memory.bytes, " bytes of ", name_of(memory.kind), " at ", hex(memory.base));
  if (memory.on_device()) where += text(" of device ", memory.device);
  return where;
}

void* map(std::uint64_t bytes, int access, int flags, int file) {
  void* const mapped = ::mmap(nullptr, bytes, access, flags, file, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

Memory::Memory() {
  void* const addresses = map(address_space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (addresses == nullptr) refuse(text("no range for device addresses: ", std::strerror(errno)));
  first_ = next_ = round_up(number(addresses), large_page);
}

/// Called at the first allocation: children that are forked before they use CUDA would share earlier memory.
void Memory::map_bytes() {
  file_ = ::memfd_create("emulated_gpu", MFD_CLOEXEC);
  if (file_ < 0 || ::ftruncate(file_, static_cast<off_t>(address_space)) != 0)
    refuse(text("no file for the bytes of devices: ", std::strerror(errno)));
  bytes_ =
      static_cast<std::byte*>(map(address_space, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_));
  if (bytes_ == nullptr) refuse(text("no range for the bytes of devices: ", std::strerror(errno)));
  ::madvise(bytes_, address_space, MADV_DONTDUMP);
}

void Memory::track(Allocation& memory) const {
  if (!settings().find_unwritten) return;
  memory.written = static_cast<std::uint8_t*>(
      map(memory.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1));
}

cudaError_t Memory::allocate(int device, std::size_t bytes, void** address) {
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  auto& used = used_[static_cast<std::size_t>(device)];
  const auto most = settings().bytes[static_cast<std::size_t>(device)];
  const auto taken = round_up(bytes, granule);
  if (bytes > most || used + taken > most) return cudaErrorMemoryAllocation;
  if (bytes_ == nullptr) map_bytes();
  // Small ones stay a page apart from each other, so that one that runs over reaches none; large ones begin
  // as CUDA's do.
  if (bytes >= large_page / 2) next_ = round_up(next_, large_page);
  Allocation memory{.base = next_, .bytes = bytes, .device = device, .mapped = round_up(bytes, page)};
  if (memory.base + memory.mapped + page > first_ + address_space - large_page)
    return cudaErrorMemoryAllocation;
  memory.host = bytes_ + (memory.base - first_);
  if (bytes <= most_filled) std::memset(memory.host, fresh_byte, bytes);
  track(memory);
  next_ += memory.mapped + page;
  used += taken;
  allocations_.emplace(memory.base, memory);
  *address = reinterpret_cast<void*>(memory.base);
  return cudaSuccess;
}

cudaError_t Memory::allocate_pinned(int device, std::size_t bytes, void** address) {
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  const auto mapped = round_up(bytes, page) + page;
  auto* const host =
      static_cast<std::byte*>(map(mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
  if (host == nullptr) return cudaErrorMemoryAllocation;
  ::mprotect(host + mapped - page, page, PROT_NONE);
  allocations_[number(host)] = {.base = number(host),
                                .bytes = bytes,
                                .kind = MemoryKind::pinned,
                                .device = device,
                                .host = host,
                                .mapped = mapped};
  *address = host;
  return cudaSuccess;
}

cudaError_t Memory::register_host(int device, void* address, std::size_t bytes, unsigned flags) {
  if (address == nullptr || bytes == 0) return cudaErrorInvalidValue;
  if (is_device_address(address)) {
    say(text("cudaHostRegister of ", address, ", which is a device address"));
    return cudaErrorInvalidValue;
  }
  const auto base = number(address);
  const auto after = allocations_.lower_bound(base);
  if (find(address) != nullptr || (after != allocations_.end() && after->first < base + bytes))
    return cudaErrorHostMemoryAlreadyRegistered;
  const bool read_only = (flags & cudaHostRegisterReadOnly) != 0;
  if (const auto problem = host_memory_problem(base, base + bytes, !read_only); !problem.empty()) {
    say(text("cudaHostRegister of ", bytes, " bytes at ", address, ": ", problem));
    return cudaErrorInvalidValue;
  }
  allocations_[base] = {.base = base,
                        .bytes = bytes,
                        .kind = MemoryKind::registered,
                        .device = device,
                        .host = static_cast<std::byte*>(address),
                        .read_only = read_only};
  return cudaSuccess;
}

void Memory::release(std::uint64_t base) {
  const auto found = allocations_.find(base);
  if (found == allocations_.end()) return;
  const Allocation& memory = found->second;
  if (memory.on_device()) {
    const auto offset = static_cast<off_t>(memory.base - first_);
    ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, static_cast<off_t>(memory.mapped));
    used_[static_cast<std::size_t>(memory.device)] -= round_up(memory.bytes, granule);
    freed_[memory.base] = memory.bytes;
  } else if (memory.kind == MemoryKind::pinned) {
    ::munmap(memory.host, memory.mapped);
  }
  if (memory.written != nullptr) ::munmap(memory.written, memory.bytes);
  allocations_.erase(found);
}

const Allocation* Memory::find(const void* address) const {
  auto found = allocations_.upper_bound(number(address));
  if (found == allocations_.begin()) return nullptr;
  --found;
  return number(address) < found->second.end() ? &found->second : nullptr;
}

const Allocation* Memory::at(const void* address) const {
  const auto found = allocations_.find(number(address));
  return found == allocations_.end() ? nullptr : &found->second;
}

bool Memory::is_device_address(const void* address) const {
  return number(address) >= first_ && number(address) < first_ + address_space - large_page;
}

bool Memory::reachable(const Allocation& memory, int device) const {
  return !memory.on_device() || memory.device == device || peers_.count({device, memory.device}) != 0;
}

std::byte* Memory::reach(const void* address, std::size_t bytes, const std::string& what) const {
  const auto* const memory = find(address);
  if (memory == nullptr) {
    if (!is_device_address(address)) return static_cast<std::byte*>(const_cast<void*>(address));
    say(text(what, ": nothing is at ", address, ": ", neighbours(address)));
    return nullptr;
  }
  const auto last = number(address) + bytes;
  if (last > memory->end() && memory->kind != MemoryKind::registered) {
    say(text(what, ": ", bytes, " bytes at ", address, " end ", last - memory->end(),
             " bytes past the end of ", describe(*memory)));
    return nullptr;
  }
  return memory->host + (number(address) - memory->base);
}

std::string Memory::neighbours(const void* address) const {
  if (const auto* const memory = find(address); memory != nullptr) return "in " + describe(*memory);
  if (!is_device_address(address)) {
    const auto above = allocations_.upper_bound(number(address));
    const auto* const below = above == allocations_.begin() ? nullptr : &std::prev(above)->second;
    if (below != nullptr && !below->on_device() && number(address) - below->end() < page)
      return text(number(address) - below->end(), " bytes past the end of ", describe(*below));
    return "host memory that is not registered";
  }
  if (auto freed = freed_.upper_bound(number(address)); freed != freed_.begin()) {
    --freed;
    if (number(address) < freed->first + freed->second)
      return text("in ", freed->second, " bytes of device memory at ", hex(freed->first), " that were freed");
  }
  std::string found;
  const auto above = allocations_.upper_bound(number(address));
  if (above != allocations_.begin() && std::prev(above)->second.on_device()) {
    const auto& below = std::prev(above)->second;
    found = text(number(address) - below.end(), " bytes past the end of ", describe(below));
  }
  if (above != allocations_.end() && above->second.on_device()) {
    found += text(found.empty() ? "" : ", ", above->first - number(address), " bytes before ",
                  describe(above->second));
  }
  return found.empty() ? "no device memory is allocated" : found;
}

void Memory::mark_written(const void* address, std::size_t bytes) {
  const auto* const memory = find(address);
  if (memory == nullptr || memory->written == nullptr) return;
  const auto offset = number(address) - memory->base;
  std::memset(memory->written + offset, 1, std::min<std::uint64_t>(bytes, memory->bytes - offset));
}

void Memory::copy_marks(const void* to, const void* from, std::size_t bytes) {
  const auto *const target = find(to), *const source = find(from);
  if (target == nullptr || target->written == nullptr) return;
  if (source == nullptr || source->written == nullptr) {
    mark_written(to, bytes);
    return;
  }
  std::memmove(target->written + (number(to) - target->base), source->written + (number(from) - source->base),
               bytes);
}

}  // namespace emulated_gpu

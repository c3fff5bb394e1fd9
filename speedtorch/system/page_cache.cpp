#include "speedtorch/system/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "speedtorch/error.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; the C library's headers are older
#endif

namespace speedtorch {
namespace {

std::size_t length(const MappedBytes& file) { return static_cast<std::size_t>(file.bytes); }

/// For system calls, which change no byte.
void* address(const MappedBytes& file) { return const_cast<std::byte*>(file.data); }

/// Reads the file through a mapping of its own that asks for huge pages. On the table's mapping the advice
/// would stay, and each later cold row would read 2 MiB.
void read_in_huge_pages(const MappedBytes& file) {
  void* mapping = ::mmap(nullptr, length(file), PROT_READ, MAP_SHARED, file.fd, file.offset);
  if (mapping == MAP_FAILED) return;
  ::madvise(mapping, length(file), MADV_HUGEPAGE);
  ::madvise(mapping, length(file), MADV_POPULATE_READ);
  ::munmap(mapping, length(file));
}

/// Drops the table's page tables, so that huge pages that 4 KiB writes had split become huge again.
void forget_mapped(const MappedBytes& file) { ::madvise(address(file), length(file), MADV_DONTNEED); }

struct SharedMapping {
  std::uintptr_t begin = 0, end = 0;
  std::string file;  ///< device and inode
};

/// The shared mappings, which are lines of /proc/self/maps with an s: "7f00-7f10 rw-s 00000000 fe:00 1234
/// /var/tmp/table". Private mappings have pages that are nowhere else.
std::vector<SharedMapping> shared_mappings() {
  std::vector<SharedMapping> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    SharedMapping one;
    char dash{};
    std::string permissions, offset, device, inode;
    words >> std::hex >> one.begin >> dash >> one.end >> permissions >> offset >> device >> inode;
    if (!words || permissions.back() != 's') continue;
    one.file = device + " " + inode;
    found.push_back(std::move(one));
  }
  return found;
}

/// Drops the pages from all of this process's shared mappings of the file. FileRows has a mapping of its own,
/// which would keep them resident.
void forget_mapped_anywhere(const MappedBytes& file) {
  forget_mapped(file);
  const auto mappings = shared_mappings();
  const auto at = reinterpret_cast<std::uintptr_t>(file.data);
  const auto own =
      std::ranges::find_if(mappings, [&](const auto& one) { return one.begin <= at && at < one.end; });
  if (own == mappings.end()) return;
  for (const auto& one : mappings) {
    if (one.file == own->file)
      ::madvise(reinterpret_cast<void*>(one.begin), one.end - one.begin, MADV_DONTNEED);
  }
}

void touch_all(const MappedBytes& file) {
  if (::madvise(address(file), length(file), MADV_POPULATE_READ) == 0 || errno != EINVAL) return;
  const volatile std::byte* data = file.data;  // before Linux 5.14
  for (std::int64_t at = 0; at < file.bytes; at += 4096) static_cast<void>(data[at]);
}

}  // namespace

void make_resident(const MappedBytes& file) {
  forget_mapped(file);
  read_in_huge_pages(file);
  touch_all(file);
}

void evict(const MappedBytes& file) {
  forget_mapped_anywhere(file);     // the kernel does not drop mapped pages
  if (::fdatasync(file.fd) != 0) {  // nor dirty ones
    const std::string answer = std::strerror(errno);
    throw FileError("cannot write the file's pages to the disk: " + answer);
  }
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  // The kernel keeps a page of which only a part is named.
  ::posix_fadvise(file.fd, file.offset, (file.bytes + page - 1) / page * page, POSIX_FADV_DONTNEED);
}

}  // namespace speedtorch

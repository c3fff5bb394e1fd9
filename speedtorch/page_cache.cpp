#include "speedtorch/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "speedtorch/error.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; the C library's headers are older
#endif

namespace speedtorch {
namespace {

std::size_t length(const MappedBytes& file) { return static_cast<std::size_t>(file.bytes); }

/// For the system's calls, which change no byte.
void* address(const MappedBytes& file) { return const_cast<std::byte*>(file.data); }

/// Reads the file through a mapping that asks for huge pages. Not through the table's own: there the advice
/// would stay, and later cold rows would each read 2 MiB.
void read_in_huge_pages(const MappedBytes& file) {
  void* mapping = ::mmap(nullptr, length(file), PROT_READ, MAP_SHARED, file.fd, 0);
  if (mapping == MAP_FAILED) return;
  ::madvise(mapping, length(file), MADV_HUGEPAGE);
  ::madvise(mapping, length(file), MADV_POPULATE_READ);
  ::munmap(mapping, length(file));
}

/// The table's page tables from the start: those that 4 KiB writes have split become huge again.
void forget_mapped(const MappedBytes& file) { ::madvise(address(file), length(file), MADV_DONTNEED); }

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
  forget_mapped(file);              // mapped pages are not dropped
  if (::fdatasync(file.fd) != 0) {  // nor dirty ones
    const std::string answer = std::strerror(errno);
    throw FileError("cannot write the file's pages to the disk: " + answer);
  }
  ::posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace speedtorch

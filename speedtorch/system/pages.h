/// Pages that the operating system gave: their kinds, and residency of a file's pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace speedtorch {

constexpr std::int64_t kHugePageBytes = std::int64_t{2} << 20;

/// Bytes in huge pages of the mappings behind [data, data + bytes), which may reach beyond it. 0 for memory
/// smaller than a huge page. Touch the memory first, because untouched pages have no kind.
/// Read from /proc/self/smaps; nothing if that is not readable.
std::optional<std::int64_t> huge_bytes(const std::byte* data, std::int64_t bytes);

/// The kind of pages of `bytes` of memory of which `huge_bytes` lie in huge pages: `4KiB`, `2MiB`, or
/// `2MiB:87%` if only a part is huge; the kernel's own page size if it is not 4 KiB.
std::string page_kind(std::int64_t huge_bytes, std::int64_t bytes);
/// The same of memory that was touched; empty if the system does not say.
std::string pages_got(const std::byte* data, std::int64_t bytes);

/// The share of `bytes` of memory of which `huge_bytes` lie in huge pages, from 0 to 1.
double huge_fraction(std::int64_t huge_bytes, std::int64_t bytes);

/// Asks for huge pages behind new memory: those that lie wholly in [data, data + bytes). The system may have
/// none.
void advise_huge_pages(std::byte* data, std::int64_t bytes);

/// The fraction of the file pages behind [data, data + bytes) that are resident (mincore).
/// @throws MemoryError if the system does not say
double resident_fraction(const std::byte* data, std::int64_t bytes);

}  // namespace speedtorch

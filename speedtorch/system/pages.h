/// Pages that the operating system gave: their kinds, and residency of a file's pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace speedtorch {

/// The kind of pages behind [data, data + bytes): `4KiB`, `2MiB`, or `2MiB:87%` if only a part is huge; the
/// kernel's own page size if it is not 4 KiB. Touch the memory first, because untouched pages have no kind.
/// Read from /proc/self/smaps; empty if that is not readable.
std::string pages_got(const std::byte* data, std::int64_t bytes);

/// The same words for a table of `bytes` of which `huge_bytes` lie in huge pages.
std::string page_kind(std::int64_t huge_bytes, std::int64_t bytes);

/// The share of the bytes of a table that lie in huge pages, from 0 to 1.
double huge_fraction(std::int64_t huge_bytes, std::int64_t bytes);
/// The same of memory, which must have been touched. @throws MemoryError if /proc/self/smaps is not readable
double huge_fraction(const std::byte* data, std::int64_t bytes);

/// Asks for huge pages behind new memory: those that lie wholly in [data, data + bytes). The system may have
/// none.
void advise_huge_pages(std::byte* data, std::int64_t bytes);

/// The fraction of the file pages behind [data, data + bytes) that are resident (mincore).
/// @throws MemoryError if the system does not say
double resident_fraction(const std::byte* data, std::int64_t bytes);

}  // namespace speedtorch

/// What the operating system really gave: kinds of pages, and whether a file's pages are in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace speedtorch {

/// The pages behind [data, data + bytes): `4KiB`, `2MiB`, or `2MiB:87%` where only a part became huge; the
/// kernel's page size where it is not 4 KiB. Touch the memory first: pages that were never touched are of no
/// kind yet. Source: /proc/self/smaps. Empty where it cannot be read.
std::string pages_got(const std::byte* data, std::int64_t bytes);

/// The same words where it is known how many bytes of a table of `bytes` lie in huge pages.
std::string page_kind(std::int64_t huge_bytes, std::int64_t bytes);

/// Asks for huge pages behind new memory: those that lie wholly in [data, data + bytes). The system may not have
/// them.
void advise_huge_pages(std::byte* data, std::int64_t bytes);

/// How many of the file pages behind [data, data + bytes) are in memory, as a fraction (mincore).
/// @throws MemoryError where the system refuses to say.
double resident_fraction(const std::byte* data, std::int64_t bytes);

}  // namespace speedtorch

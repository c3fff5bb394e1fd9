#include "speedtorch/system/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

#include "speedtorch/error.h"

namespace speedtorch {
namespace {

/// The kilobytes of one mapping's line, "AnonHugePages:    2048 kB"; 0 for any other line.
double kilobytes(const std::string& line, const char* name) {
  if (!line.starts_with(name)) return 0;
  return std::strtod(line.c_str() + std::strlen(name), nullptr);
}

struct Mapping {
  std::uintptr_t begin = 0, end = 0;
};

/// Parses a mapping's first line, "7f00-7f10 rw-p ..."; begin == end for any other line.
Mapping mapping_of(const std::string& line) {
  Mapping mapping;
  const char* last = line.data() + line.size();
  const auto first = std::from_chars(line.data(), last, mapping.begin, 16);
  if (first.ec != std::errc{} || first.ptr == last || *first.ptr != '-') return {};
  const auto second = std::from_chars(first.ptr + 1, last, mapping.end, 16);
  return second.ec == std::errc{} && second.ptr != last && *second.ptr == ' ' ? mapping : Mapping{};
}

std::string page_name(std::int64_t bytes) {
  return bytes >= (1 << 20) ? std::to_string(bytes >> 20) + "MiB" : std::to_string(bytes >> 10) + "KiB";
}

}  // namespace

void advise_huge_pages(std::byte* data, std::int64_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  const auto size = static_cast<std::uintptr_t>(kHugePageBytes);
  const auto begin = (at + size - 1) / size * size,
             end = (at + static_cast<std::uintptr_t>(bytes)) / size * size;
  if (begin < end)
    ::madvise(data + (begin - at), end - begin, MADV_HUGEPAGE);  // a hint: refused, nothing is lost
}

std::optional<std::int64_t> huge_bytes(const std::byte* data, std::int64_t bytes) {
  std::ifstream smaps("/proc/self/smaps");
  if (!smaps) return std::nullopt;
  if (bytes < kHugePageBytes) return 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(data), end = begin + static_cast<std::uintptr_t>(bytes);
  double huge_kilobytes = 0;
  bool inside = false;
  std::string line;
  while (std::getline(smaps, line)) {
    if (const auto mapping = mapping_of(line); mapping.end != mapping.begin) {
      if (mapping.begin >= end) break;  // they are in order, and LibTorch's, near the end, take 2 ms to read
      inside = mapping.end > begin;
    } else if (inside) {
      for (const char* name : {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"})
        huge_kilobytes += kilobytes(line, name);
    }
  }
  return static_cast<std::int64_t>(huge_kilobytes) * 1024;
}

std::string pages_got(const std::byte* data, std::int64_t bytes) {
  const auto huge = huge_bytes(data, bytes);
  return huge ? page_kind(*huge, bytes) : std::string();
}

double huge_fraction(std::int64_t huge_bytes, std::int64_t bytes) {
  return bytes > 0 ? std::clamp(static_cast<double>(huge_bytes) / static_cast<double>(bytes), 0.0, 1.0) : 0;
}

std::string page_kind(std::int64_t huge_bytes, std::int64_t bytes) {
  // Huge pages start at multiples of their size, so only what lies between two such multiples can be huge.
  const auto inner = static_cast<double>(std::max<std::int64_t>(0, bytes / kHugePageBytes * kHugePageBytes));
  const double share = inner > 0 ? std::min(1.0, static_cast<double>(huge_bytes) / inner) : 0;
  if (share >= 0.995) return page_name(kHugePageBytes);
  if (share < 0.005) return page_name(::sysconf(_SC_PAGESIZE));
  return page_name(kHugePageBytes) + ":" + std::to_string(std::lround(share * 100)) + "%";
}

double resident_fraction(const std::byte* data, std::int64_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(data) / page * page;
  const auto length = reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(bytes) - begin;
  std::vector<unsigned char> pages((length + page - 1) / page);
  if (::mincore(reinterpret_cast<void*>(begin), length, pages.data()) != 0) {
    throw MemoryError(std::string("mincore: ") + std::strerror(errno));
  }
  const auto resident =
      std::count_if(pages.begin(), pages.end(), [](unsigned char state) { return (state & 1) != 0; });
  return static_cast<double>(resident) / static_cast<double>(pages.size());
}

}  // namespace speedtorch

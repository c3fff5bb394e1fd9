#include "speedtorch/kernels/cache_size.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace speedtorch::kernels {
namespace {

/// The largest of the sizes ("32768K") that the kernel lists for the first core's caches.
std::int64_t largest_listed_cache() {
  std::int64_t largest = 0;
  std::error_code unlisted;
  for (const auto& cache :
       std::filesystem::directory_iterator("/sys/devices/system/cpu/cpu0/cache", unlisted)) {
    std::ifstream file(cache.path() / "size");
    std::string text;
    if (!std::getline(file, text) || text.empty()) continue;
    const std::int64_t unit = text.back() == 'M' ? 1 << 20 : text.back() == 'K' ? 1 << 10 : 1;
    largest = std::max(largest, std::int64_t{std::stol(text)} * unit);
  }
  return largest;
}

TEST(CacheSize, IsTheLargestOfTheCoresCaches) {
  const std::int64_t listed = largest_listed_cache();
  const std::int64_t unlisted_default = std::int64_t{32} << 20;
  EXPECT_EQ(last_level_cache_bytes(), listed > 0 ? listed : unlisted_default);
}

}  // namespace
}  // namespace speedtorch::kernels

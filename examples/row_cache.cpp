#include <ATen/ATen.h>

#include <filesystem>
#include <iostream>

#include "speedtorch/files/mapped_file.h"
#include "speedtorch/files/row_cache.h"

int main() {
  // 100,000 rows of 64 floats in a file that np.load reads; in row i each is i.
  std::filesystem::remove("row_cache.npy");  // of an earlier run: a file never replaces another
  speedtorch::MappedFile::create("row_cache.npy", {100'000, 64}, at::kFloat, [](at::Tensor& array) {
    array.copy_(at::arange(100'000).view({-1, 1}).expand({-1, 64}));
  });

  const auto cache = speedtorch::RowCache::open("row_cache.npy",
                                                {.bytes = 2 << 20, .writes = speedtorch::CacheWrites::back});
  const at::Tensor index = at::tensor({99'999, 7, 7}, at::kLong);
  at::Tensor out = at::empty({3, 64});
  cache->gather(index, out);       // out[i] = row index[i], read from the file
  cache->gather(index, out);       // the same, from the cache
  cache->scatter(index, out + 1);  // rows 99,999 and 7, in the cache
  cache->flush();                  // and on the disk
  cache->prefetch(at::arange(5));  // reads the next batch's rows meanwhile

  const auto seen = cache->statistics();
  std::cout << out[0][0].item<float>() << ' ' << seen.hits << " hits of " << seen.hits + seen.misses << '\n';
  return 0;
}

#include "benchmarks/tables/content.h"

#include "harness/fill.h"

namespace stbench {

void Content::write(std::byte* data, std::int64_t begin, std::int64_t end) const {
  if (file_ != nullptr) {
    file_->read(data, begin, end);
  } else {
    harness::fill(data, begin, end, seed_);
  }
}

std::int64_t Content::first_mismatch(const std::byte* data, std::int64_t begin, std::int64_t bytes) const {
  return file_ != nullptr ? file_->first_mismatch(data, begin, bytes)
                          : harness::first_mismatch(data, begin, bytes, seed_);
}

}  // namespace stbench

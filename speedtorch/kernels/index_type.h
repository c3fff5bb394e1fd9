/// The types of the row numbers in an index.
#pragma once

#include <concepts>
#include <cstdint>

namespace speedtorch::kernels {

template <class Index>
concept IndexType = std::same_as<Index, std::int32_t> || std::same_as<Index, std::int64_t>;

}  // namespace speedtorch::kernels

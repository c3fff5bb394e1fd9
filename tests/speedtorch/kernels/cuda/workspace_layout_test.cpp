#include "speedtorch/kernels/cuda/workspace_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace speedtorch::kernels {
namespace {

TEST(WorkspaceLayout, PartsAreAlignedAndDoNotOverlap) {
  std::vector<std::byte> block(8192 + 256);
  auto* const start = block.data() + (256 - reinterpret_cast<std::uintptr_t>(block.data()) % 256) % 256;
  WorkspaceLayout layout(start);
  const std::byte* end = start;
  for (const std::int64_t count : {1, 100, 0, 64, 65}) {
    const auto* const part = reinterpret_cast<const std::byte*>(layout.take<std::int32_t>(count));
    EXPECT_GE(part, end);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(part) % 256, 0u);
    end = part + count * 4;
  }
  EXPECT_LE(end, start + layout.bytes());
  EXPECT_LE(layout.bytes(), 5 * 256 + 4 * (1 + 100 + 64 + 65));
}

TEST(WorkspaceLayout, AddsUpTheSameWithoutABlock) {
  std::vector<std::byte> block(4096);
  WorkspaceLayout with(block.data()), without(nullptr);
  with.take<std::int64_t>(33);
  EXPECT_EQ(without.take<std::int64_t>(33), nullptr);
  with.take<std::byte>(1);
  EXPECT_EQ(without.take<std::byte>(1), nullptr);
  EXPECT_EQ(with.bytes(), without.bytes());
}

}  // namespace
}  // namespace speedtorch::kernels

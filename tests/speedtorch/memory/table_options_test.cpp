#include "speedtorch/memory/table_options.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "speedtorch/tables/data_gadget.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {
namespace {

Placement of_a_new_table() { return Table::empty({3, 2}, at::kFloat).placement(); }

TEST(DefaultTableOptionsGuard, AppliesToTheTablesWithin) {
  EXPECT_EQ(of_a_new_table(), Placement::hugepage);
  {
    const DefaultTableOptionsGuard outer({.placement = Placement::pageable});
    EXPECT_EQ(of_a_new_table(), Placement::pageable);
    {
      const DefaultTableOptionsGuard inner({.placement = Placement::mapped});
      EXPECT_EQ(of_a_new_table(), Placement::mapped);
      EXPECT_EQ(DataGadget::from_tensor(at::ones({3})).table().placement(), Placement::mapped);
      EXPECT_EQ(Table::empty({3}, at::kFloat, {.placement = Placement::libtorch}).placement(),
                Placement::libtorch);  // explicit options win
    }
    EXPECT_EQ(of_a_new_table(), Placement::pageable);
  }
  EXPECT_EQ(of_a_new_table(), Placement::hugepage);
}

TEST(DefaultTableOptionsGuard, EndsWithAnException) {
  try {
    const DefaultTableOptionsGuard scope({.placement = Placement::pageable});
    EXPECT_EQ(of_a_new_table(), Placement::pageable);
    throw std::runtime_error("on the way");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(of_a_new_table(), Placement::hugepage);
  EXPECT_EQ(default_table_options().placement, Placement::hugepage);
}

TEST(DefaultTableOptionsGuard, AppliesToItsThreadOnly) {
  const DefaultTableOptionsGuard scope({.placement = Placement::pageable});
  auto elsewhere = Placement::mapped;
  std::thread([&] { elsewhere = of_a_new_table(); }).join();
  EXPECT_EQ(elsewhere, Placement::hugepage);
  EXPECT_EQ(of_a_new_table(), Placement::pageable);
}

TEST(DefaultTableOptionsGuard, DoesNotTouchLibTorchsAllocations) {
  const auto before = at::empty({100}).storage().allocator();
  const DefaultTableOptionsGuard scope({.placement = Placement::mapped});
  EXPECT_EQ(at::empty({100}).storage().allocator(), before);
}

}  // namespace
}  // namespace speedtorch

#include "speedtorch/memory/home.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "speedtorch/tables/data_gadget.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {
namespace {

Placement of_a_new_table() { return Table::empty({3, 2}, at::kFloat).placement(); }

TEST(HomeScope, HoldsForTheTablesWithin) {
  EXPECT_EQ(of_a_new_table(), Placement::hugepage);
  {
    const HomeScope outer({.placement = Placement::pageable});
    EXPECT_EQ(of_a_new_table(), Placement::pageable);
    {
      const HomeScope inner({.placement = Placement::mapped});
      EXPECT_EQ(of_a_new_table(), Placement::mapped);
      EXPECT_EQ(DataGadget::from_tensor(at::ones({3})).table().placement(), Placement::mapped);
      EXPECT_EQ(Table::empty({3}, at::kFloat, {.placement = Placement::libtorch}).placement(),
                Placement::libtorch);  // who names a home gets it
    }
    EXPECT_EQ(of_a_new_table(), Placement::pageable);
  }
  EXPECT_EQ(of_a_new_table(), Placement::hugepage);
}

TEST(HomeScope, EndsWithAnException) {
  try {
    const HomeScope scope({.placement = Placement::pageable});
    EXPECT_EQ(of_a_new_table(), Placement::pageable);
    throw std::runtime_error("on the way");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(of_a_new_table(), Placement::hugepage);
  EXPECT_EQ(current_home().placement, Placement::hugepage);
}

TEST(HomeScope, IsTheThreadsOwn) {
  const HomeScope scope({.placement = Placement::pageable});
  auto elsewhere = Placement::mapped;
  std::thread([&] { elsewhere = of_a_new_table(); }).join();
  EXPECT_EQ(elsewhere, Placement::hugepage);
  EXPECT_EQ(of_a_new_table(), Placement::pageable);
}

TEST(HomeScope, DoesNotTouchLibTorchsAllocations) {
  const auto before = at::empty({100}).storage().allocator();
  const HomeScope scope({.placement = Placement::mapped});
  EXPECT_EQ(at::empty({100}).storage().allocator(), before);
}

}  // namespace
}  // namespace speedtorch

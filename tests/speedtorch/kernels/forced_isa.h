/// Each instruction set that this machine has, one test after another.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>

#include "speedtorch/kernels/isa.h"
#include "speedtorch/kernels/rows/row_moves.h"

namespace speedtorch::kernels {

/// Moves on one instruction set while it lives, then on the best again.
class ForcedIsa {
 public:
  explicit ForcedIsa(std::string_view name) { use_isa(name); }
  ~ForcedIsa() { use_isa("best"); }
  ForcedIsa(const ForcedIsa&) = delete;
};

/// An instruction set and a way to store.
using Path = std::tuple<std::string_view, Stores>;

/// Tests that run on one path.
class OnPath : public ::testing::TestWithParam<Path> {
 protected:
  Stores stores() const { return std::get<Stores>(GetParam()); }

 private:
  ForcedIsa isa_{std::get<std::string_view>(GetParam())};
};

inline auto all_paths() {
  return ::testing::Combine(::testing::ValuesIn(supported_isas()),
                            ::testing::Values(Stores::cached, Stores::streaming, Stores::staged));
}

inline std::string path_name(const ::testing::TestParamInfo<Path>& path) {
  const auto& [isa, stores] = path.param;
  return std::string(isa) + (stores == Stores::cached      ? "Cached"
                             : stores == Stores::streaming ? "Streaming"
                                                           : "Staged");
}

}  // namespace speedtorch::kernels

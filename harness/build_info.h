/// How this program was built.
#pragma once

#include <string>

namespace stbench::harness {

struct BuildInfo {
  std::string version;  ///< of stbench
  std::string compiler, compiler_version, flags, build_type;
  std::string git_revision;  ///< empty if the sources were no git checkout
  bool git_dirty = false;    ///< tracked files differed from it
};

const BuildInfo& build_info();

}  // namespace stbench::harness

#include "reports/destination.h"

#include <filesystem>
#include <system_error>

namespace stbench::reports {

namespace {

namespace fs = std::filesystem;

/// Follows links to a file that does not exist, which the library takes for the file themselves.
fs::path behind_dangling_links(fs::path path) {
  constexpr int kMostLinks = 40;  // as many as the system follows
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / target;  // an absolute target stands for itself
  }
  return path;
}

}  // namespace

std::string destination_of(const std::string& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  const fs::path resolved =
      fs::weakly_canonical(exists ? fs::path(path) : behind_dangling_links(path), error);
  return error ? path : resolved.string();
}

}  // namespace stbench::reports

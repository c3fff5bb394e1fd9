#include "reports/destination.h"

#include <filesystem>
#include <system_error>

#include "speedtorch/system/unfinished.h"

namespace stbench::reports {

std::string destination_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool exists = fs::exists(path, error);
  const fs::path resolved = fs::weakly_canonical(exists ? path : speedtorch::resolve_links(path), error);
  return error ? path : resolved.string();
}

}  // namespace stbench::reports

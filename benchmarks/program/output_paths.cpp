#include "benchmarks/program/output_paths.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "harness/errors.h"
#include "reports/destination.h"

namespace stbench {
namespace {

/// Equal for two paths of one file. A file that does not exist is its folder and its name.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  std::string name;  ///< empty: the file itself exists

  bool operator==(const FileIdentity&) const = default;
};

FileIdentity identity_of(const struct stat& state, std::string name) {
  return {state.st_dev, state.st_ino, std::move(name)};
}

bool drops_everything(const struct stat& state) {
  constexpr unsigned kMemoryDevices = 1, kNull = 3;
  return S_ISCHR(state.st_mode) && state.st_rdev == ::makedev(kMemoryDevices, kNull);
}

/// Nothing for /dev/null, and for a path in no folder, which is refused where it is opened.
std::optional<FileIdentity> file_behind(const std::string& path) {
  struct stat state {};
  const int found = path == "-" ? ::fstat(STDOUT_FILENO, &state) : ::stat(path.c_str(), &state);
  if (found == 0) return drops_everything(state) ? std::nullopt : std::optional(identity_of(state, {}));
  const std::filesystem::path destination = reports::destination_of(path);
  const auto folder = destination.has_parent_path() ? destination.parent_path().string() : ".";
  if (path == "-" || ::stat(folder.c_str(), &state) != 0) return std::nullopt;
  return identity_of(state, destination.filename().string());
}

/// The tables would be in a file that a report takes the place of. Other kinds of files are not replaced.
void require_apart_from_tables(const std::string& option, const std::string& path) {
  struct stat state {};
  if (::fstat(STDOUT_FILENO, &state) != 0 || !S_ISREG(state.st_mode)) return;
  if (file_behind(path) == identity_of(state, {}))
    throw UsageError(
        fmt::format("{} names '{}', where stdout goes, too; give each a file of its own, or write {} -",
                    option, path, option));
}

}  // namespace

void require_apart(const OutputPaths& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [option, path] = outputs[i];
    if (path.empty()) continue;
    for (std::size_t k = 0; k < i; ++k) {
      const auto& [earlier, same] = outputs[k];
      if (same.empty()) continue;
      if (path == "-" && same == "-")
        throw UsageError(fmt::format("{} - and {} -: only one report can go to stdout", earlier, option));
      if (const auto file = file_behind(path); file && file == file_behind(same))
        throw UsageError(fmt::format("{} '{}' and {} '{}' are one file; give each a file of its own", earlier,
                                     same, option, path));
    }
    if (path != "-") require_apart_from_tables(option, path);
  }
}

}  // namespace stbench

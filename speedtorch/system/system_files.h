/// The kernel's small text files, below a root that tests replace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace speedtorch {

/// Reads files below `root`; what is not there or cannot be read is nullopt, as on other kernels and in
/// containers.
class SystemFiles {
 public:
  explicit SystemFiles(std::filesystem::path root = "/") : root_(std::move(root)) {}

  [[nodiscard]] std::optional<std::string> text(std::string_view path) const;
  /// Without the line's end; nullopt for an empty file too.
  [[nodiscard]] std::optional<std::string> first_line(std::string_view path) const;
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view path) const;
  [[nodiscard]] std::vector<std::string> lines(std::string_view path) const;
  /// What stands behind the key and its separator (`:`, `=` or blanks) in the first line that begins with it.
  [[nodiscard]] std::optional<std::string> value(std::string_view path, std::string_view key) const;
  /// The choice in brackets of a first line like "always [madvise] never".
  [[nodiscard]] std::optional<std::string> choice(std::string_view path) const;
  /// The names in a folder, sorted; none where it cannot be read.
  [[nodiscard]] std::vector<std::string> names(std::string_view folder) const;
  /// The number that such a value begins with; a `kB` behind it counts as 1024.
  [[nodiscard]] std::optional<std::int64_t> bytes(std::string_view path, std::string_view key) const;

 private:
  std::filesystem::path root_;
};

/// All of a file; nullopt where it cannot be read, as a folder cannot.
std::optional<std::string> read_file(const std::filesystem::path& path);

/// The whole number, zero or more, that the text begins with.
std::optional<std::int64_t> leading_number(std::string_view text);

/// The numbers of a list as the kernel writes it: "0-3,8". What is no number is left out.
std::vector<int> number_list(std::string_view text);

}  // namespace speedtorch

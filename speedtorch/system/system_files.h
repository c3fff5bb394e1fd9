/// The kernel's small text files, below a root that tests replace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace speedtorch {

/// Reads files below `root`. Returns nullopt for a file that is missing or unreadable, as on other kernels
/// and in containers.
class SystemFiles {
 public:
  explicit SystemFiles(std::filesystem::path root = "/") : root_(std::move(root)) {}

  [[nodiscard]] std::optional<std::string> text(std::string_view path) const;
  /// Without the line's end; nullopt for an empty file too.
  [[nodiscard]] std::optional<std::string> first_line(std::string_view path) const;
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view path) const;
  [[nodiscard]] std::vector<std::string> lines(std::string_view path) const;
  /// The text after the key and its separator (`:`, `=` or blanks) in the first line that starts with the
  /// key.
  [[nodiscard]] std::optional<std::string> value(std::string_view path, std::string_view key) const;
  /// The choice in brackets of a first line such as "always [madvise] never".
  [[nodiscard]] std::optional<std::string> choice(std::string_view path) const;
  /// The names in a folder, sorted; none if it is not readable.
  [[nodiscard]] std::vector<std::string> names(std::string_view folder) const;
  /// The number at the start of such a value; a trailing `kB` multiplies it by 1024.
  [[nodiscard]] std::optional<std::int64_t> bytes(std::string_view path, std::string_view key) const;

 private:
  std::filesystem::path root_;
};

/// The whole file; nullopt if it is not readable, as a folder is.
std::optional<std::string> read_file(const std::filesystem::path& path);

/// The processor's design, as in "family 25, model 1" (x86) or "implementer 0x41, part 0xd40" (Arm). Its name
/// does not tell it: virtual machines of Zen 3 and of Zen 5 both say "AMD EPYC". nullopt on other kernels.
std::optional<std::string> processor_design(const SystemFiles& files);

/// A text that the host's kernel chose when it started: processes of one host find the same. nullopt on other
/// kernels.
std::optional<std::string> host_start_id();

/// The whole number, zero or more, at the start of the text.
std::optional<std::int64_t> leading_number(std::string_view text);

/// The numbers of a list as the kernel writes it: "0-3,8". Skips what is no number.
std::vector<int> number_list(std::string_view text);

}  // namespace speedtorch

/// Index distributions: which rows a batch names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stbench::harness {

/// How indices are drawn. All kinds but a trace depend on the seed and the set alone, so they are the same on
/// each machine.
struct Distribution {
  enum class Kind {
    uniform,     ///< each row as likely as any other, with repeats
    unique,      ///< the same without repeats
    sequential,  ///< consecutive rows; set s begins where set s - 1 ended
    sorted,      ///< uniform, in ascending order
    zipf,  ///< row frequencies by Zipf's law; which rows are frequent depends on the seed, not on the set
    file   ///< a trace: its consecutive numbers, from the start again at the end
  };
  Kind kind = Kind::unique;
  double exponent = 0;  ///< of zipf, above 0
  std::string path;     ///< of file

  bool operator==(const Distribution&) const = default;
};

/// uniform, unique, sequential, sorted, zipf:S (0 < S <= 20) or file:PATH.
/// @throws UsageError for any other text.
Distribution parse_distribution(std::string_view text, std::string_view option = "--distribution");

/// Writes a distribution so that parse_distribution reads it back.
std::string to_string(const Distribution& distribution);

/// Draws the batches of one distribution; a trace is read once.
class IndexSource {
 public:
  /// Reads the trace: one whole number per line (LF or CRLF), or a one-dimensional `.npy` array of integers.
  /// A recorded name (below) names a file whose content must have that hash.
  /// @throws UsageError if the file is missing, empty, or has a text or a negative number (with its line or
  /// element).
  explicit IndexSource(Distribution distribution);

  /// Returns the name for a report; for a trace `file:<base name>@<8 hex digits of its SHA-256>`.
  [[nodiscard]] const std::string& recorded_name() const { return recorded_name_; }

  /// @throws UsageError if no such batch can be drawn: `rows` or `batch` is below 1, a unique batch is above
  /// `rows`, or a number of the trace (named with its line or element) is not below `rows`.
  void require(std::int64_t rows, std::int64_t batch) const;

  /// The index of set number `set`, `batch` numbers from 0 to `rows` - 1.
  /// @throws UsageError as require() does.
  [[nodiscard]] std::vector<std::int64_t> draw(std::int64_t rows, std::int64_t batch, std::uint64_t seed,
                                               int set) const;

 private:
  void load();
  void read_text(std::string_view content);
  void read_npy(std::string_view content);
  [[noreturn]] void refuse_element(std::size_t position, std::string_view what) const;

  Distribution distribution_;
  std::string recorded_name_;
  std::vector<std::int64_t> trace_;
  std::int64_t trace_max_ = -1;
  std::string_view element_ =
      "line";  ///< what a number of the trace is called: "line" from 1, "element" from 0
};

}  // namespace stbench::harness

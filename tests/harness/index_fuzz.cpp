/// The fuzz target of index files (`--distribution file:PATH`): any bytes give indices or a UsageError. Of a
/// text they are its lines, one after the other and from the front again.
#include <limits>
#include <vector>

#include "harness/distribution.h"
#include "harness/errors.h"
#include "speedtorch/files/npy.h"
#include "tests/fuzz.h"

namespace stbench::harness {
namespace {

using test::require;

/// The numbers of a text that is known to be right.
std::vector<std::int64_t> lines_of(std::string_view text) {
  std::vector<std::int64_t> numbers;
  while (!text.empty())
    numbers.push_back(std::strtoll(std::string(test::taken(text, "\n")).c_str(), nullptr, 10));
  return numbers;
}

std::vector<std::int64_t> numbers_of(std::string_view file) {
  const auto bytes = std::as_bytes(std::span(file));
  return speedtorch::is_npy(bytes) ? speedtorch::npy_integers(bytes) : lines_of(file);
}

void check_draws(const IndexSource& source, const std::vector<std::int64_t>& numbers) {
  constexpr std::int64_t batch = 7;
  for (const int set : {0, 1, 1000}) {
    const auto drawn = source.draw(std::numeric_limits<std::int64_t>::max(), batch, 1, set);
    require(drawn.size() == batch, "a set has as many indices as the batch");
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      const auto at = (static_cast<std::size_t>(batch) * static_cast<std::size_t>(set) + i) % numbers.size();
      require(drawn[i] == numbers[at], "the indices are the file's, in its order");
    }
  }
}

void check_bound(const IndexSource& source, const std::vector<std::int64_t>& numbers) {
  const auto most = *std::max_element(numbers.begin(), numbers.end());
  if (most == std::numeric_limits<std::int64_t>::max()) return;
  source.require(most + 1, 1);
  if (most == 0) return;
  try {
    source.require(most, 1);
    require(false, "an index beyond the table is refused");
  } catch (const UsageError& error) {
    test::check_message(error.what(), 1);
  }
}

}  // namespace
}  // namespace stbench::harness

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stbench;
  const auto content = test::text_of(data, size);
  const test::MemoryFile file(content);
  try {
    const harness::IndexSource source({harness::Distribution::Kind::file, 0, file.path()});
    const auto numbers = harness::numbers_of(content);
    harness::check_bound(source, numbers);
    harness::check_draws(source, numbers);
  } catch (const UsageError& error) {
    test::check_message(error.what(), 1);
  }
  return 0;
}

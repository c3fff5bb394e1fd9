#include "speedtorch/files/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace speedtorch {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kLongestHeader = 64 * 1024;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t little_endian(std::span<const std::byte> bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<std::size_t>(bytes[i]);
  return value;
}

/// Parses a header's dictionary, `{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }`, and no other
/// Python.
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : rest_(text) {}

  NpyHeader read() {
    expect('{');
    while (!take('}')) {
      read_entry();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (!rest_.empty()) fail("has text behind its dictionary");
    if (!descr_ || !fortran_ || !shape_) fail("needs descr, fortran_order and shape");
    return {*descr_, *fortran_, *shape_, 0};
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { throw NpyError("the .npy header " + what); }

  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  bool take(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!take(c)) fail(std::string("lacks a '") + c + "'");
  }

  bool take_word(std::string_view word) {
    skip_blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  void read_entry() {
    const std::string key = read_string();
    expect(':');
    if (key == "descr" && !descr_) {
      skip_blanks();
      if (rest_.starts_with('[')) fail("is of a structured type, which is not supported");
      descr_ = read_string();
    } else if (key == "fortran_order" && !fortran_) {
      fortran_ = take_word("True");
      if (!*fortran_ && !take_word("False")) fail("has a fortran_order that is neither True nor False");
    } else if (key == "shape" && !shape_) {
      shape_ = read_shape();
    } else {
      fail("has an unknown or repeated key '" + key + "'");
    }
  }

  std::string read_string() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) fail("has a quote that is not closed");
    std::string text(rest_.substr(0, end));
    const auto is_printable = [](char c) { return c >= ' ' && c <= '~' && c != '\\'; };
    if (text.size() > 64 || !std::ranges::all_of(text, is_printable))
      fail("has a text that NumPy would not write");
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::vector<std::int64_t> read_shape() {
    std::vector<std::int64_t> shape;
    expect('(');
    bool comma = true;
    while (!take(')')) {
      if (!comma) fail("has a shape without commas");
      if (shape.size() == kMostNpyDimensions) fail("has more than 64 dimensions");
      shape.push_back(read_extent());
      comma = take(',');
    }
    if (shape.size() == 1 && !comma) fail("has a shape that is no tuple");
    return shape;
  }

  std::int64_t read_extent() {
    skip_blanks();
    std::int64_t extent = 0;
    const auto [rest, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
    if (error != std::errc{} || extent < 0) fail("has an extent that is no number from 0 to 2^63 - 1");
    rest_.remove_prefix(static_cast<std::size_t>(rest - rest_.data()));
    take('L');  // as NumPy wrote it under Python 2
    return extent;
  }

  std::string_view rest_;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_;
  std::optional<std::vector<std::int64_t>> shape_;
};

template <class T>
std::vector<std::int64_t> widen(std::span<const std::byte> data) {
  std::vector<std::int64_t> numbers(data.size() / sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T number;
    std::memcpy(&number, data.data() + i * sizeof(T), sizeof(T));
    numbers[i] = number;
  }
  return numbers;
}

struct IntegerType {
  std::string_view descr;
  std::int64_t bytes;
  std::vector<std::int64_t> (*widen)(std::span<const std::byte>);
};

constexpr std::array<IntegerType, 7> kIntegerTypes{{{"|i1", 1, widen<std::int8_t>},
                                                    {"|u1", 1, widen<std::uint8_t>},
                                                    {"<i2", 2, widen<std::int16_t>},
                                                    {"<u2", 2, widen<std::uint16_t>},
                                                    {"<i4", 4, widen<std::int32_t>},
                                                    {"<u4", 4, widen<std::uint32_t>},
                                                    {"<i8", 8, widen<std::int64_t>}}};

const IntegerType& integer_type(const std::string& descr) {
  const auto type = std::ranges::find(kIntegerTypes, descr, &IntegerType::descr);
  if (type == kIntegerTypes.end()) {
    throw NpyError("the .npy file holds elements of type '" + descr +
                   "'; little-endian int8 to int64 or uint8 to uint32 are needed");
  }
  return *type;
}

}  // namespace

std::int64_t NpyHeader::elements() const {
  // A zero anywhere makes the product zero, even if the other extents would overflow.
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) {
      throw NpyError("the .npy header has a shape of more than 2^63 - 1 elements");
    }
  }
  return product;
}

bool is_npy(std::span<const std::byte> file) { return as_text(file).starts_with(kMagic); }

NpyHeader parse_npy_header(std::span<const std::byte> file) {
  if (!is_npy(file)) throw NpyError("the file does not begin as a .npy file does");
  if (file.size() < kMagic.size() + 2) throw NpyError("the .npy file ends within its header");
  const auto major = std::to_integer<int>(file[6]);
  const auto minor = std::to_integer<int>(file[7]);
  if (major < 1 || major > 3 || minor != 0) {
    throw NpyError("the .npy file has format version " + std::to_string(major) + "." + std::to_string(minor) +
                   "; known are 1.0, 2.0 and 3.0");
  }
  const std::size_t begin = major == 1 ? 10 : 12;
  if (file.size() < begin) throw NpyError("the .npy file ends within its header");
  const std::size_t length = little_endian(file.subspan(8, begin - 8));
  if (length > kLongestHeader) throw NpyError("the .npy header is longer than 64 KiB");
  if (file.size() - begin < length) throw NpyError("the .npy file ends within its header");
  const auto text = as_text(file.subspan(begin, length));
  if (text.ends_with(
          '\r')) {  // in place of the line feed that ends a header, which then is the data's first byte
    throw NpyError(
        "the .npy header ends in a carriage return: the file was copied as text, which has changed its "
        "numbers; copy it as "
        "binary");
  }
  NpyHeader header = Dictionary(text).read();
  header.data_offset = static_cast<std::int64_t>(begin + length);
  return header;
}

std::vector<std::int64_t> npy_integers(std::span<const std::byte> file) {
  const NpyHeader header = parse_npy_header(file);
  const IntegerType& type = integer_type(header.descr);
  if (header.shape.size() != 1) {
    throw NpyError("the .npy file holds an array of " + std::to_string(header.shape.size()) +
                   " dimensions; one is needed");
  }
  const std::span<const std::byte> data = file.subspan(static_cast<std::size_t>(header.data_offset));
  std::int64_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(header.elements(), type.bytes, &bytes);
  if (overflows || bytes != static_cast<std::int64_t>(data.size())) {
    throw NpyError("the .npy header promises " + std::to_string(header.elements()) + " elements of " +
                   std::to_string(type.bytes) + " bytes; the file has " + std::to_string(data.size()) +
                   " bytes behind it");
  }
  return type.widen(data);
}

}  // namespace speedtorch

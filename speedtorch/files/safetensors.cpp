#include "speedtorch/files/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

namespace speedtorch {
namespace {

constexpr int kDeepest = 127;  // open brackets, as in the package safetensors
constexpr std::string_view kMetadata = "__metadata__";

struct ElementType {
  std::string_view name;
  std::uint64_t bits;
};

constexpr auto kElementTypes = std::to_array<ElementType>(
    {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6},     {"F6_E3M2", 6},     {"U8", 8},      {"I8", 8},
     {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8}, {"I16", 16},
     {"U16", 16},    {"F16", 16},    {"BF16", 16},       {"I32", 32},        {"U32", 32},    {"F32", 32},
     {"C64", 64},    {"F64", 64},    {"I64", 64},        {"U64", 64}});

[[noreturn]] void refuse_file_as(const std::string& what) {
  throw SafetensorsError("the safetensors file " + what);
}
[[noreturn]] void refuse_header(const std::string& what) {
  throw SafetensorsError("the safetensors header " + what);
}

/// The text in quotation marks, on one line, at most 80 bytes of it. It ends with a whole character.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 80;
  auto length = std::min(most, text.size());
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80)
    --length;
  std::string shown(text.substr(0, length));
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < ' ' || c == 0x7F; }, '?');
  return "'" + shown + (length < text.size() ? "…'" : "'");
}

std::string at_byte(std::int64_t byte) { return " (byte " + std::to_string(byte) + ")"; }

/// A tensor's entry in the header. Its data_offsets count from the end of the header.
struct Described {
  std::int64_t at = 0;  ///< the byte of the file at which the entry begins
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape, data_offsets;
};

std::string tensor_at(const std::string& name, const Described& found) {
  return "the tensor " + in_quotes(name) + at_byte(found.at);
}

/// Goes through the header's characters for nlohmann's parser, and says how far it has come.
class Reached {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Reached(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  Reached& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const Reached& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

/// Collects the header's entries from nlohmann's parser.
class HeaderReader {
 public:
  std::map<std::string, Described> tensors;
  std::map<std::string, std::string> metadata;

  /// @param text the header, which begins at byte kSafetensorsLengthBytes of the file
  explicit HeaderReader(std::string_view text) : begin_(text.data()), reached_(text.data()) {
    nlohmann::json::sax_parse(Reached(begin_, &reached_), Reached(begin_ + text.size(), &reached_), this);
  }

  // The parser calls these functions; the names are nlohmann's. `true` means: go on.
  bool null() { return other_value("null"); }
  bool boolean(bool value) { return other_value(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return other_value(std::to_string(value)); }
  bool number_float(double /*value*/, const std::string& text) { return other_value(text); }
  bool binary(const std::vector<std::uint8_t>& /*value*/) { return other_value("bytes"); }

  bool number_unsigned(std::uint64_t value) {
    if (numbers_ == nullptr) return other_value(std::to_string(value));
    const auto most = key_ == "shape" ? kMostSafetensorsDimensions : 2;
    if (numbers_->size() == most)
      refuse_header("has more than " + std::to_string(most) + " numbers as " + in_quotes(key_) +
                    at_byte(key_at_) + in_entry());
    numbers_->push_back(value);
    return true;
  }

  bool string(const std::string& value) {
    if (skipped_ > 0) return true;
    if (within_ == Within::metadata) {
      metadata[key_] = value;
    } else if (within_ == Within::tensor && numbers_ == nullptr && key_ == "dtype") {
      tensor_->dtype = value;
    } else {
      return other_value("the text " + in_quotes(value));
    }
    return true;
  }

  bool start_object(std::size_t /*elements*/) {
    if (skip()) return true;
    if (within_ == Within::nothing) {
      within_ = Within::file;
    } else if (within_ == Within::file) {
      start_entry();
    } else {
      return other_value("an object");
    }
    return true;
  }

  bool end_object() {
    if (skipped_ > 0) {
      --skipped_;
    } else {
      within_ = within_ == Within::file ? Within::nothing : Within::file;
    }
    return true;
  }

  bool key(const std::string& text) {
    if (skipped_ > 0) return true;
    key_ = text;
    key_at_ = kSafetensorsLengthBytes + (start_of_text() - begin_);
    auto& known = within_ == Within::file ? keys_of_file_ : keys_of_entry_;
    if (!known.insert(text).second)
      refuse_header("has the key " + in_quotes(text) + at_byte(key_at_) + in_entry() +
                    " a second time; each may stand once");
    return true;
  }

  bool start_array(std::size_t /*elements*/) {
    if (skip()) return true;
    if (within_ != Within::tensor || numbers_ != nullptr) return other_value("an array");
    if (key_ == "shape") {
      numbers_ = &tensor_->shape.emplace();
    } else if (key_ == "data_offsets") {
      numbers_ = &tensor_->data_offsets.emplace();
    } else {
      return other_value("an array");
    }
    return true;
  }

  bool end_array() {
    if (skipped_ > 0) {
      --skipped_;
    } else {
      numbers_ = nullptr;
    }
    return true;
  }

  /// @param position how many characters were read
  [[noreturn]] static bool parse_error(std::size_t position, const std::string& /*token*/,
                                       const nlohmann::json::exception& /*error*/) {
    const auto at = kSafetensorsLengthBytes + static_cast<std::int64_t>(position) - 1;
    refuse_header("is no JSON from byte " + std::to_string(at) + " of the file on");
  }

 private:
  enum class Within { nothing, file, metadata, tensor };

  void start_entry() {
    keys_of_entry_.clear();
    within_ = key_ == kMetadata ? Within::metadata : Within::tensor;
    name_ = key_;
    if (within_ == Within::metadata) return;
    if (tensors.size() == kMostSafetensorsTensors)
      refuse_header("has more than " + std::to_string(kMostSafetensorsTensors) +
                    " tensors: " + in_quotes(name_) + at_byte(key_at_) + " is one too many");
    tensor_ = &tensors[name_];
    tensor_->at = key_at_;
  }

  /// The opening quotation mark of the text that was read last: the last one that is not escaped.
  [[nodiscard]] const char* start_of_text() const {
    const char* at = reached_ - 1;
    while (true) {
      --at;
      if (*at != '"') continue;
      const char* escape = at;
      while (escape[-1] == '\\') --escape;  // the header's '{' stands before any text
      if ((at - escape) % 2 == 0) return at;
    }
  }

  /// True within the value of a key that the format does not know, which is skipped whole.
  bool skip() {
    if (skipped_ > 0 || is_unknown()) ++skipped_;
    constexpr int around = 2;  // the header's and the entry's own brackets
    if (skipped_ > kDeepest - around)
      refuse_header("nests more than " + std::to_string(kDeepest) + " levels in " + in_quotes(key_) +
                    at_byte(key_at_) + in_entry());
    return skipped_ > 0;
  }
  [[nodiscard]] bool is_unknown() const {
    return within_ == Within::tensor && numbers_ == nullptr && key_ != "dtype" && key_ != "shape" &&
           key_ != "data_offsets";
  }

  /// @param value what stands where another kind of value is needed
  bool other_value(const std::string& value) {
    if (skipped_ > 0 || is_unknown()) return true;
    refuse_header("has " + value + " as " + in_quotes(key_) + at_byte(key_at_) + in_entry() + "; " +
                  needed() + " is needed");
  }
  [[nodiscard]] std::string needed() const {
    if (within_ == Within::file) return "an object";
    return within_ == Within::metadata || key_ == "dtype" ? "a text" : "an array of whole numbers from 0 on";
  }
  [[nodiscard]] std::string in_entry() const {
    return within_ == Within::metadata || within_ == Within::tensor ? " of " + in_quotes(name_) : "";
  }

  const char* begin_;
  const char* reached_;  ///< behind the last character that the parser has taken
  Within within_ = Within::nothing;
  std::string key_, name_;   ///< the last key, and that of the entry
  std::int64_t key_at_ = 0;  ///< of the last key, in the file
  Described* tensor_ = nullptr;
  std::vector<std::uint64_t>* numbers_ = nullptr;  ///< where an array's numbers go
  int skipped_ = 0;                                ///< the open brackets of a skipped value
  std::set<std::string> keys_of_file_, keys_of_entry_;
};

std::string known_types() {
  std::string names;
  for (const auto& type : kElementTypes) names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

/// Bytes of the elements. Multiplies in the order of the shape, as the format's own reader does: an extent of
/// 0 does not excuse an overflow before it.
std::uint64_t bytes_of(const std::string& name, const Described& found) {
  const auto type = std::ranges::find(kElementTypes, *found.dtype, &ElementType::name);
  if (type == kElementTypes.end())
    refuse_header("gives " + tensor_at(name, found) + " the unknown dtype " + in_quotes(*found.dtype) +
                  "; known are " + known_types());
  std::uint64_t bits = 1;
  bool fits = true;
  for (const auto extent : *found.shape) fits = fits && !__builtin_mul_overflow(bits, extent, &bits);
  if (!fits || __builtin_mul_overflow(bits, type->bits, &bits))
    refuse_header("gives " + tensor_at(name, found) + " a shape of more than 2^64 - 1 bits");
  if (bits % 8 != 0)
    refuse_header("gives " + tensor_at(name, found) + " " + std::to_string(bits) + " bits of " +
                  *found.dtype + "; whole bytes are needed");
  return bits / 8;
}

/// @param data where the tensors begin
/// @param data_bytes the bytes from there to the end of the file
SafetensorsTensor checked(const std::string& name, const Described& found, std::int64_t data,
                          std::int64_t data_bytes) {
  if (!found.dtype || !found.shape || !found.data_offsets)
    refuse_header("lacks '" +
                  std::string(!found.dtype   ? "dtype"
                              : !found.shape ? "shape"
                                             : "data_offsets") +
                  "' of " + tensor_at(name, found) + "; dtype, shape and data_offsets are needed");
  const auto& offsets = *found.data_offsets;
  if (offsets.size() != 2)
    refuse_header("gives " + tensor_at(name, found) + " " + std::to_string(offsets.size()) +
                  " data_offsets; 2 are needed");
  const auto [begin, end] = std::pair(offsets[0], offsets[1]);
  if (begin > end || end > static_cast<std::uint64_t>(data_bytes))
    refuse_header("gives " + tensor_at(name, found) + " the data_offsets " + std::to_string(begin) + " to " +
                  std::to_string(end) + "; behind the header are " + std::to_string(data_bytes) + " bytes");
  SafetensorsTensor tensor{
      *found.dtype, {}, data + static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin)};
  if (const auto needed = bytes_of(name, found); needed != end - begin)
    refuse_header("gives " + tensor_at(name, found) + " " + std::to_string(end - begin) +
                  " bytes; its dtype and shape need " + std::to_string(needed));
  for (const auto extent : *found.shape) {
    if (extent > std::numeric_limits<std::int64_t>::max())
      refuse_header("gives " + tensor_at(name, found) + " an extent of " + std::to_string(extent) +
                    "; at most 2^63 - 1 is allowed");
    tensor.shape.push_back(static_cast<std::int64_t>(extent));
  }
  return tensor;
}

/// The tensors must lie one behind the other, from `data` to the end of the file.
void check_places(const Safetensors& file, const std::map<std::string, Described>& found, std::int64_t data,
                  std::int64_t file_bytes) {
  std::vector<const std::pair<const std::string, SafetensorsTensor>*> in_order;
  for (const auto& entry : file.tensors) in_order.push_back(&entry);
  std::ranges::sort(in_order, {},
                    [](const auto* entry) { return std::pair(entry->second.offset, entry->second.bytes); });
  std::int64_t end = data;
  for (const auto* entry : in_order) {
    const auto& [name, tensor] = *entry;
    if (tensor.offset != end)
      refuse_header("places " + tensor_at(name, found.at(name)) + " at the data_offset " +
                    std::to_string(tensor.offset - data) + ", which " +
                    (tensor.offset < end ? "overlaps the tensor before it" : "leaves a hole") + "; " +
                    std::to_string(end - data) + " is next");
    end += tensor.bytes;
  }
  if (end != file_bytes)
    refuse_file_as("has " + std::to_string(file_bytes - end) + " bytes behind its last tensor, from byte " +
                   std::to_string(end) + " on; none are allowed");
}

/// Up to ten of the file's tensors, for a message.
std::string names_of(const Safetensors& file) {
  constexpr std::size_t most = 10;
  if (file.tensors.empty()) return "it has no tensors";
  std::string names;
  std::size_t shown = 0;
  for (const auto& [name, tensor] : file.tensors) {
    if (shown++ == most) break;
    names += (names.empty() ? "it has " : ", ") + in_quotes(name);
  }
  if (file.tensors.size() > most) names += " and " + std::to_string(file.tensors.size() - most) + " more";
  return names;
}

}  // namespace

std::int64_t safetensors_header_bytes(std::span<const std::byte> beginning, std::int64_t file_bytes) {
  if (std::ssize(beginning) < kSafetensorsLengthBytes)
    refuse_file_as("has only " + std::to_string(beginning.size()) +
                   " bytes; the length of its header alone takes 8");
  std::uint64_t length = 0;
  for (std::size_t i = kSafetensorsLengthBytes; i-- > 0;)
    length = length << 8 | std::to_integer<std::uint64_t>(beginning[i]);
  if (length > static_cast<std::uint64_t>(kLongestSafetensorsHeader))
    refuse_file_as("promises a header of " + std::to_string(length) + " bytes; the format allows " +
                   std::to_string(kLongestSafetensorsHeader));
  const auto end = kSafetensorsLengthBytes + static_cast<std::int64_t>(length);
  if (end > file_bytes)
    refuse_file_as("promises a header of " + std::to_string(length) + " bytes; behind its length are " +
                   std::to_string(file_bytes - kSafetensorsLengthBytes));
  if (length == 0) refuse_file_as("has an empty header; '{}' is the shortest");
  if (std::ssize(beginning) <= kSafetensorsLengthBytes) refuse_file_as("ends within its header");
  if (const auto first = beginning[kSafetensorsLengthBytes]; first != std::byte{'{'}) {
    std::array<char, 5> hex{};
    std::snprintf(hex.data(), hex.size(), "0x%02x", std::to_integer<unsigned>(first));
    refuse_header("begins with the byte " + std::string(hex.data()) + at_byte(kSafetensorsLengthBytes) +
                  "; '{' is needed");
  }
  return end;
}

Safetensors parse_safetensors(std::span<const std::byte> beginning, std::int64_t file_bytes) {
  const auto data = safetensors_header_bytes(beginning, file_bytes);
  if (std::ssize(beginning) < data) refuse_file_as("ends within its header");  // it was shrunk meanwhile
  const std::string_view text(reinterpret_cast<const char*>(beginning.data()) + kSafetensorsLengthBytes,
                              static_cast<std::size_t>(data - kSafetensorsLengthBytes));
  // To the parser, a zero byte would be the end.
  if (const auto zero = text.find('\0'); zero != std::string_view::npos)
    refuse_header("is no JSON: byte " +
                  std::to_string(kSafetensorsLengthBytes + static_cast<std::int64_t>(zero)) +
                  " of the file is zero");
  HeaderReader header(text);
  Safetensors file{{}, std::move(header.metadata)};
  for (const auto& [name, found] : header.tensors)
    file.tensors.emplace_hint(file.tensors.end(), name, checked(name, found, data, file_bytes - data));
  check_places(file, header.tensors, data, file_bytes);
  return file;
}

const SafetensorsTensor& tensor_named(const Safetensors& file, const std::optional<std::string>& name) {
  if (!name) {
    if (file.tensors.size() == 1) return file.tensors.begin()->second;
    refuse_file_as("has " + std::to_string(file.tensors.size()) +
                   " tensors; name one as FILE:NAME: " + names_of(file));
  }
  if (const auto found = file.tensors.find(*name); found != file.tensors.end()) return found->second;
  refuse_file_as("has no tensor " + in_quotes(*name) + "; " + names_of(file));
}

}  // namespace speedtorch

#include "benchmarks/suite/plain_words.h"

#include <algorithm>

namespace stbench {
namespace {

constexpr std::size_t longest_words = 200;

/// True for what a program's messages name: its sources, libraries and data. Not any dot will do, because
/// people have dots in their names, too.
bool names_a_file(std::string_view name) {
  constexpr std::string_view kinds[] = {"py", "pyc", "so",  "c",    "cc",  "cpp",
                                        "h",  "cu",  "cuh", "json", "npy", "txt"};
  if (const auto version = name.find(".so."); version != std::string_view::npos)
    name = name.substr(0, version + 3);
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  return std::ranges::find(kinds, name.substr(dot + 1)) != std::end(kinds);
}

std::string without_folders(std::string_view path) {
  const auto last = path.substr(path.rfind('/') + 1);
  const auto name = last.substr(0, last.find_last_not_of(".,;!?") + 1);
  return std::string(names_a_file(name) ? name : "...") + std::string(last.substr(name.size()));
}

bool ends_a_word(char c) {
  constexpr std::string_view marks = "'\"()=:";
  return (c >= '\0' && c <= ' ') || marks.find(c) != std::string_view::npos;
}

/// How long the quoted absolute path that the text begins with is, quotes included; 0 if there is none.
std::size_t quoted_path(std::string_view text) {
  if (text.size() < 2 || (text[0] != '\'' && text[0] != '"') || text[1] != '/') return 0;
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;  // the next belongs to the path, whatever it is
    else if (text[i] == text[0])
      return i + 1;
  }
  return text.size();  // cut off
}

}  // namespace

std::string plain_words(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    std::size_t taken = quoted_path(text);
    if (taken > 0) {
      const auto path = text.substr(1, taken - 1 - (text[taken - 1] == text[0] ? 1 : 0));
      plain += text[0] + without_folders(path) + text[0];
    } else if (ends_a_word(text[0])) {
      plain += text[0], taken = 1;
    } else {
      taken = static_cast<std::size_t>(std::ranges::find_if(text, ends_a_word) - text.begin());
      const auto word = text.substr(0, taken);
      plain += word.find('/') == std::string_view::npos ? std::string(word) : without_folders(word);
    }
    text.remove_prefix(taken);
  }
  std::ranges::replace_if(
      plain, [](char c) { return c < ' ' || c > '~'; }, '?');
  return plain.size() <= longest_words ? plain : plain.substr(0, longest_words) + "...";
}

}  // namespace stbench

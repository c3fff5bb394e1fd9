#include "reports/csv_reader.h"

#include <csv.h>
#include <fmt/format.h>

#include <new>

#include "reports/error.h"

namespace stbench::reports {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

class Parser {
 public:
  explicit Parser(std::string_view name) : name_(name) {
    if (csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI) != 0) throw std::bad_alloc();
    csv_set_space_func(&parser_, [](unsigned char) { return 0; });  // libcsv would strip blanks
  }
  ~Parser() { csv_free(&parser_); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  /// A byte at a time: only between two calls does `parser_.quoted` say whether the cell being read is
  /// quoted.
  std::vector<CsvRow> parse(std::string_view text) {
    for (const char byte : text) {
      begin_row_at(byte);
      if (csv_parse(&parser_, &byte, 1, on_cell, on_row, this) != 1) fail();
      if (byte == '\n') ++line_;
    }
    if (csv_fini(&parser_, on_cell, on_row, this) != 0) fail();
    return std::move(rows_);
  }

 private:
  void begin_row_at(char byte) {
    if (row_begun_ || byte == '\r' || byte == '\n') return;
    row_begun_ = true;
    row_.line = line_;
  }

  static void on_cell(void* text, std::size_t size, void* self_pointer) {
    auto& self = *static_cast<Parser*>(self_pointer);
    self.row_.cells.push_back({std::string(static_cast<const char*>(text), size), self.parser_.quoted != 0});
  }

  static void on_row(int, void* self_pointer) {
    auto& self = *static_cast<Parser*>(self_pointer);
    self.rows_.push_back(std::move(self.row_));
    self.row_ = {};
    self.row_begun_ = false;
  }

  [[noreturn]] void fail() {
    throw ReportError(fmt::format("{}, line {}: a quote is missing or out of place; RFC 4180 would be right",
                                  name_, line_));
  }

  std::string_view name_;
  csv_parser parser_{};
  std::size_t line_ = 1;
  bool row_begun_ = false;
  CsvRow row_;
  std::vector<CsvRow> rows_;
};

}  // namespace

std::vector<CsvRow> csv_rows(std::string_view text, std::string_view name) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return Parser(name).parse(text);
}

}  // namespace stbench::reports

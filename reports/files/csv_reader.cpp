#include "reports/files/csv_reader.h"

#include <csv.h>
#include <fmt/format.h>

#include <new>
#include <utility>

#include "reports/error.h"

namespace stbench::reports {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

constexpr std::size_t kMostCells = 1000;  // of a row

class Parser {
 public:
  Parser(std::string_view name, const std::function<void(CsvRow)>& take) : name_(name), take_(take) {
    if (csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI) != 0) throw std::bad_alloc();
    csv_set_space_func(&parser_, [](unsigned char) { return 0; });  // libcsv would strip blanks
  }
  ~Parser() { csv_free(&parser_); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  /// A byte at a time: only between two calls does `parser_.quoted` say whether the cell being read is
  /// quoted. Rows are handed over here and not from libcsv's callbacks: it is C, and must not be thrown
  /// through.
  void parse(std::string_view text) {
    for (const char byte : text) {
      begin_cell_at(byte);
      if (csv_parse(&parser_, &byte, 1, on_cell, on_row, this) != 1)
        fail("a quote is missing or out of place; RFC 4180 would be right");
      hand_over();
      ++column_;
      if (byte == '\n') ++line_, column_ = 1;
    }
    if (csv_fini(&parser_, on_cell, on_row, this) != 0)
      fail("a quote is missing or out of place; RFC 4180 would be right");
    hand_over();
  }

 private:
  void begin_cell_at(char byte) {
    if (row_.cells.empty() && cell_line_ == 0) {
      if (byte == '\r' || byte == '\n') return;
      row_.line = line_;
    }
    if (cell_line_ == 0) cell_line_ = line_, cell_column_ = column_;
  }

  void hand_over() {
    if (row_.cells.size() > kMostCells) fail("more than 1000 cells in a row; a report has not so many");
    if (!complete_) return;
    complete_ = false;
    take_(std::exchange(row_, {}));
  }

  static void on_cell(void* text, std::size_t size, void* self_pointer) {
    auto& self = *static_cast<Parser*>(self_pointer);
    if (self.cell_line_ == 0)
      self.cell_line_ = self.line_, self.cell_column_ = self.column_;  // empty, at the end
    self.row_.cells.push_back({std::string(static_cast<const char*>(text), size), self.parser_.quoted != 0,
                               self.cell_line_, self.cell_column_});
    self.cell_line_ = 0;
  }

  static void on_row(int, void* self_pointer) { static_cast<Parser*>(self_pointer)->complete_ = true; }

  [[noreturn]] void fail(std::string_view what) const {
    throw ReportError(fmt::format("{}, line {}, column {}: {}", name_, line_, column_, what));
  }

  std::string_view name_;
  const std::function<void(CsvRow)>& take_;
  csv_parser parser_{};
  std::size_t line_ = 1, column_ = 1, cell_line_ = 0, cell_column_ = 0;  // a cell without a line is not begun
  bool complete_ = false;
  CsvRow row_;
};

}  // namespace

void read_csv_rows(std::string_view text, std::string_view name, const std::function<void(CsvRow)>& on_row) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Parser(name, on_row).parse(text);
}

}  // namespace stbench::reports

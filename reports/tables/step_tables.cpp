#include "reports/tables/step_tables.h"

#include <optional>
#include <string_view>

#include "reports/columns.h"
#include "reports/group.h"
#include "reports/tables/grid.h"
#include "reports/tables/notes.h"
#include "reports/tables/transfer_table.h"

namespace stbench::reports {
namespace {

std::optional<double> measured_real(const Record& row, std::string_view name) {
  return number_of(row.more, name);
}

GridCell number_cell(const Record& row, std::string_view name, int digits) {
  const auto number = measured_real(row, name);
  return {number ? significant(*number, digits) : ""};
}

/// Held-out losses of rows that were trained, beside those of who knows nothing and of who knows the
/// frequencies.
std::string learning_table(const Rows& rows, Style style) {
  Grid grid({{"who", Align::left},
             {"steps/s"},
             {"words/s"},
             {"loss"},
             {"all zero", Align::right, 2},
             {"unigram", Align::right, 1}});
  for (const Record* row : rows)
    grid.add({{who(row->id)},
              number_cell(*row, "steps_per_s", 4),
              {measured_real(*row, "words_per_s")
                   ? grouped(static_cast<std::int64_t>(*measured_real(*row, "words_per_s")))
                   : ""},
              number_cell(*row, "heldout_loss", 4),
              number_cell(*row, "zero_loss", 4),
              number_cell(*row, "unigram_loss", 4)});
  return painted("Does it learn? The loss on held-out pairs after the same steps of each", Paint::bold,
                 style) +
         "\n" + paragraph(workload_text(*rows.front()), 2, Paint::none, style) + grid.render(style);
}

}  // namespace

std::string step_tables(const Rows& rows, Style style) {
  const Rows trained = those(rows, [](const Record& row) { return measured_real(row, "heldout_loss"); });
  std::string text = transfer_tables(rows, style);
  for (const Rows& workload : group_without(trained, {"placement", "method"}))
    text += "\n" + learning_table(workload, style);
  return text;
}

}  // namespace stbench::reports

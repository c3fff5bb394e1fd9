#include "speedtorch/kernels/row_view.h"

#include <string>

#include "speedtorch/kernels/error.h"

namespace speedtorch::kernels {
namespace {

std::string shape_of(const char* name, ConstRows rows) {
  return std::string(name) + " (" + std::to_string(rows.rows) + " rows of " + std::to_string(rows.row_bytes) +
         " bytes, " + std::to_string(rows.stride_bytes) + " apart)";
}

/// Both sides of one movement. The listed side has a row per index, in the index's order.
struct Sides {
  const char* from_name;
  ConstRows from;
  const char* to_name;
  ConstRows to;
  ConstRows listed;
};

[[noreturn]] void refuse(const Sides& sides, const std::string& why) {
  throw ShapeError(shape_of(sides.from_name, sides.from) + " and " + shape_of(sides.to_name, sides.to) +
                   ": " + why);
}

void check(const Sides& sides, std::int64_t count) {
  const auto& [from_name, from, to_name, to, listed] = sides;
  if (from.row_bytes != to.row_bytes) refuse(sides, "the rows differ in width");
  if (from.row_bytes < 0) refuse(sides, "a width is negative");
  if (count < 0 || from.rows < 0 || to.rows < 0) refuse(sides, "a count is negative");
  if (listed.rows != count) refuse(sides, "there are " + std::to_string(count) + " indices");
  if (from.stride_bytes < 0) refuse(sides, "a stride is negative");
  if (to.rows > 1 && to.stride_bytes < to.row_bytes) refuse(sides, "the rows that are written overlap");
}

}  // namespace

void require_bytes_in_rows(ConstRows table) {
  if (table.row_bytes < 1)
    throw ShapeError(shape_of("table", table) + ": on a GPU a row has at least 1 byte");
}

void check_gather_shapes(ConstRows table, std::int64_t count, Rows out) {
  check({"table", table, "out", out, out}, count);
}

void check_scatter_shapes(ConstRows values, std::int64_t count, Rows table) {
  check({"values", values, "table", table, values}, count);
}

}  // namespace speedtorch::kernels

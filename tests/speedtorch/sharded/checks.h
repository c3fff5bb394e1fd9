/// Helpers for tests of sharded tables: a list of differences, and the contents that one process would have.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include "speedtorch/sharded/sharded_table.h"

namespace speedtorch::test {

/// Collects what differs; empty if nothing does.
class Differences {
 public:
  void expect(bool right, const std::string& what) {
    if (!right) text_ << what << "; ";
  }
  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

/// The message of the `Error` that `work` throws, or what it did instead.
template <class Error, class Work>
std::string message(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

inline void expect_text(const std::string& got, const std::string& part, Differences& found) {
  found.expect(got.find(part) != std::string::npos, "'" + got + "' lacks '" + part + "'");
}

/// [rows, 3, 2], no two elements alike.
inline at::Tensor table_of(std::int64_t rows) {
  return at::arange(rows * 6, at::kFloat).view({rows, 3, 2}) / 7;
}

/// Each rank can compute the values of any rank: [count, 3, 2].
inline at::Tensor values_of(int rank, std::int64_t count, std::uint64_t seed = 0) {
  auto generator = at::detail::createCPUGenerator(seed * 100 + 50 + static_cast<std::uint64_t>(rank));
  return at::rand({count, 3, 2}, generator, at::kFloat);
}

template <class Of>
at::Tensor of_all(int ranks, Of of) {
  std::vector<at::Tensor> all;
  for (int r = 0; r < ranks; ++r) all.push_back(of(r));
  return at::cat(all);
}

/// This rank's rows of a table that one process has.
inline at::Tensor mine_of(const ShardedTable& table, const at::Tensor& whole) {
  std::vector<std::int64_t> rows;
  for (std::int64_t k = 0; k < table.shard().rows(); ++k)
    rows.push_back(table.owners().row_of({table.group().rank(), k}));
  return at::index_select(whole, 0, at::tensor(rows, at::kLong));
}

/// A loop, as the order of scatters is stated. Tables of float.
inline at::Tensor scattered(at::Tensor table, const at::Tensor& index, const at::Tensor& values, bool add) {
  const auto width = table[0].numel();
  auto* const rows = table.mutable_data_ptr<float>();
  const auto* const numbers = index.const_data_ptr<std::int64_t>();
  const auto* const given = values.const_data_ptr<float>();
  for (std::int64_t k = 0; k < index.numel(); ++k)
    for (std::int64_t e = 0; e < width; ++e) {
      auto& element = rows[numbers[k] * width + e];
      element = (add ? element : 0.0F) + given[k * width + e];
    }
  return table;
}

}  // namespace speedtorch::test

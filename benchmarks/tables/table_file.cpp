#include "benchmarks/tables/table_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/closed_axes.h"
#include "benchmarks/suite/option_spec.h"
#include "harness/errors.h"
#include "harness/sha256.h"
#include "speedtorch/error.h"
#include "speedtorch/system/mapping.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/system/parallel_read.h"

namespace stbench {
namespace {

constexpr std::int64_t compared_at_once = std::int64_t{64} << 10;

/// The rows of a file, from its page on: read-only.
class MappedRows final : public speedtorch::Memory {
 public:
  explicit MappedRows(const speedtorch::ArrayFile& array)
      : Memory(array.bytes),
        file_(::dup(array.file.get())),
        offset_(array.data_offset),
        head_(offset_ % ::sysconf(_SC_PAGESIZE)),
        mapping_(file_.get(), offset_ - head_, head_ + array.bytes, PROT_READ) {}
  [[nodiscard]] speedtorch::Placement placement() const override { return speedtorch::Placement::mapped; }
  [[nodiscard]] std::byte* data() const override { return mapping_.data() + head_; }
  [[nodiscard]] int file_fd() const override { return file_.get(); }
  [[nodiscard]] std::int64_t file_offset() const override { return offset_; }
  [[nodiscard]] bool writable() const override { return false; }
  void require_writable() const override {
    throw speedtorch::FileError("the file of --table is only read; write to a copy of its rows");
  }

 private:
  speedtorch::Descriptor file_;
  std::int64_t offset_, head_;  ///< of the first row in the file and in its page
  speedtorch::FileMapping mapping_;
};

/// The array of a file that has no header. @throws UsageError
speedtorch::ArrayFile raw_array(const std::string& path, const RowShape& shape) {
  speedtorch::ArrayFile array;
  array.name = speedtorch::base_name(path);
  array.file = speedtorch::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  struct stat found {};
  if (array.file.get() < 0 || ::fstat(array.file.get(), &found) != 0)
    speedtorch::refuse_path(path, "cannot be opened");
  array.dtype = shape.dtype, array.shape = {shape.rows, shape.row_elements}, array.bytes = found.st_size;
  if (array.bytes == shape.bytes()) return array;
  throw UsageError(fmt::format("--table {}: it has {} bytes and no header; {} rows of {} bytes are {}",
                               array.name, array.bytes, shape.rows, shape.row_bytes(), shape.bytes()));
}

/// The shape of a file without a header, if the options state one.
std::optional<RowShape> stated_shape(const Options& options) {
  if (options.rows.size() != 1) return std::nullopt;
  const bool bytes = options.row_bytes.size() == 1;
  if (!bytes && (options.dims.size() != 1 || options.dtypes.size() != 1)) return std::nullopt;
  return row_shape(bytes ? std::nullopt : dtype_named(options.dtypes.front()), options.rows.front(),
                   bytes ? options.row_bytes.front() : options.dims.front());
}

std::string described(const TableFile& table) {
  return fmt::format("{} × {} {}", table.rows(), table.case_dim(), dtype_name(table.case_dtype()));
}

}  // namespace

TableFile::TableFile(const std::string& path, const std::optional<RowShape>& raw) try
    : array_(raw ? raw_array(path, *raw) : speedtorch::open_array(path, speedtorch::Access::read_only)),
      raw_(raw.has_value()) {
  if (array_.shape.empty() || array_.bytes == 0)
    throw UsageError(fmt::format("--table {}: it has no rows", array_.name));
  rows_ = array_.shape.front();
} catch (const UsageError&) {
  throw;
} catch (const std::exception& error) {
  throw UsageError(fmt::format("--table: {}", error.what()));
}

void TableFile::keep_first(std::int64_t rows) {
  if (rows < 1 || rows > rows_)
    throw UsageError(
        fmt::format("--table {} --rows {}: the table has {} rows; use 1 to that for the first of them",
                    array_.name, rows, rows_));
  array_.bytes = array_.bytes / rows_ * rows, array_.shape.front() = rows_ = rows;
}

std::optional<at::ScalarType> TableFile::case_dtype() const {
  const bool known = contains(closed_axes::dtypes(), dtype_name(array_.dtype));
  return known ? std::optional(array_.dtype) : std::nullopt;
}

std::int64_t TableFile::case_dim() const { return case_dtype() ? row_elements() : bytes() / rows_; }

void TableFile::read(std::byte* to, std::int64_t begin, std::int64_t end) const {
  const auto [count, error] =
      speedtorch::read_bytes(array_.file.get(), array_.data_offset + begin, to, end - begin);
  if (count == end - begin) return;
  const std::string why = error != 0 ? std::strerror(error) : "it was shrunk";
  throw speedtorch::FileError(fmt::format("'{}' cannot be read at byte {}: {}", array_.name,
                                          array_.data_offset + begin + count, why));
}

std::int64_t TableFile::first_mismatch(const std::byte* data, std::int64_t begin, std::int64_t bytes) const {
  std::array<std::byte, compared_at_once> own;  // NOLINT: read() fills what is compared
  for (std::int64_t done = 0; done < bytes; done += compared_at_once) {
    const auto now = std::min(compared_at_once, bytes - done);
    read(own.data(), begin + done, begin + done + now);
    const auto* from = data + done;
    if (std::memcmp(from, own.data(), static_cast<std::size_t>(now)) == 0) continue;
    return done + (std::mismatch(from, from + now, own.data()).first - from);
  }
  return -1;
}

std::shared_ptr<speedtorch::Memory> TableFile::map() const { return std::make_shared<MappedRows>(array_); }

std::string TableFile::hash() const {
  constexpr std::int64_t page = 4096, pages = 256;
  std::vector<std::byte> sample(sizeof(std::int64_t));
  const auto size = bytes();
  std::memcpy(sample.data(), &size, sizeof size);
  const auto part = std::min(page, size);
  for (std::int64_t k = 0; k < pages; ++k) {
    const auto begin = (size - part) / (pages - 1) * k;
    const auto at = sample.size();
    sample.resize(at + static_cast<std::size_t>(part));
    read(sample.data() + at, begin, begin + part);
  }
  return harness::sha256(sample).substr(0, 16);
}

nlohmann::ordered_json TableFile::environment() const {
  return {{"file", array_.name},   {"dtype", dtype_name(array_.dtype)},
          {"shape", array_.shape}, {"bytes", array_.bytes},
          {"hash", hash()},        {"offset", array_.data_offset}};
}

std::shared_ptr<const TableFile> table_of(const Options& options) {
  if (options.table.empty()) return nullptr;
  if (!options.workloads.empty())
    throw UsageError("--table and --workload exclude each other: both say what the rows are");
  const bool any = !options.dims.empty() || !options.dtypes.empty() || !options.row_bytes.empty();
  const auto stated = stated_shape(options);
  std::optional<TableFile> known;
  try {
    known.emplace(options.table);
  } catch (const UsageError&) {
    if (!stated) throw;
    return std::make_shared<TableFile>(options.table, stated);
  }
  if (any)
    throw UsageError(fmt::format("--table {} has {}: leave out --dim, --dtype and --row-bytes", known->name(),
                                 described(*known)));
  if (options.rows.size() > 1)
    throw UsageError(
        fmt::format("--table {}: --rows takes one number, of the table's first rows", known->name()));
  auto table = std::make_shared<TableFile>(options.table);
  if (!options.rows.empty()) table->keep_first(options.rows.front());
  return table;
}

Options with_shape_of(const TableFile& table, Options options) {
  if (!options.case_id.empty()) return options;
  options.rows = {table.rows()};
  options.dims.clear(), options.dtypes.clear(), options.row_bytes.clear();
  if (const auto dtype = table.case_dtype()) {
    options.dims = {table.case_dim()}, options.dtypes = {dtype_name(dtype)};
  } else {
    options.row_bytes = {table.case_dim()};
  }
  return options;
}

void require_shape_of(const TableFile& table, const reports::Identity& id) {
  const auto shape = shape_of(id);
  if (id.rows == table.rows() && shape.bytes() == table.bytes()) return;
  throw UsageError(fmt::format("--case: the table has {} × {} {}, and --table {} has {}", id.rows, id.dim,
                               id.dtype, table.name(), described(table)));
}

namespace {

const RegisterOption table_option{
    "--table FILE",
    "FILE[:NAME], rows of a real table: .npy, safetensors, raw",
    option_reader::text(&Options::table),
    {},
    R"(The rows are those of a .npy file, of a tensor of a safetensors file (model.safetensors:embed.weight), or of a file without
       a header whose shape --rows, --dim and --dtype, or --rows and --row-bytes, state. --rows alone takes the first rows. The
       file is opened read-only: mapped tables that are only read are the file itself, and all others are copies. Every row is
       verified against the file.)",
    /*rules=*/0};

}  // namespace

}  // namespace stbench

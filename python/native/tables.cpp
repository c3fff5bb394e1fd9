#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <variant>

#include "python/native/bindings.h"
#include "speedtorch/error.h"
#include "speedtorch/files/array_file.h"
#include "speedtorch/files/file_rows.h"
#include "speedtorch/files/mapped_file.h"
#include "speedtorch/files/row_cache.h"
#include "speedtorch/memory/new_output.h"
#include "speedtorch/system/pages.h"
#include "speedtorch/tables/saved_tables.h"
#include "speedtorch/tables/table.h"
#include "speedtorch/tables/table_rows.h"

namespace speedtorch::python {
namespace {

namespace py = pybind11;
using Sizes = std::vector<std::int64_t>;
using Released = py::call_guard<py::gil_scoped_release>;

std::vector<std::string> placements() {
  std::vector<std::string> names;
  for (int k = 0; k <= static_cast<int>(Placement::device); ++k)
    names.emplace_back(to_string(static_cast<Placement>(k)));
  return names;
}

Table empty(const Sizes& sizes, at::ScalarType dtype, const std::string& placement, at::Device device,
            const std::string& file, bool shared) {
  return Table::empty(sizes, dtype, table_options(placement, device, file, shared));
}

Table from_array(const at::Tensor& array, const std::string& placement, at::Device device,
                 const std::string& file, bool shared) {
  return Table::from_array(array, table_options(placement, device, file, shared));
}

/// `copy` reads a `mapped` table from the file into another one, instead of mapping the file itself.
Table from_file(const std::string& path, const std::string& placement, at::Device device,
                const std::string& file, bool shared, bool writable) {
  const auto options = table_options(placement, device, file, shared);
  if (!file.empty()) return Table::copied_from_file(path, options);
  return Table::from_file(path, options, writable ? Access::read_write : Access::read_only);
}

Table from_torch(const std::string& path, const std::string& placement, at::Device device,
                 const std::string& file, bool shared) {
  return load_torch(path, table_options(placement, device, file, shared));
}

using Number = std::variant<std::int64_t, double>;

c10::Scalar scalar_of(const Number& number) {
  return std::visit([](auto value) { return c10::Scalar(value); }, number);
}

void fill_uniform(Table& table, const Number& low, const Number& high, std::optional<std::uint64_t> seed) {
  table.fill(Uniform{.low = scalar_of(low), .high = scalar_of(high), .seed = seed});
}

void fill_normal(Table& table, double mean, double std, std::optional<std::uint64_t> seed) {
  table.fill(Normal{.mean = mean, .std = std, .seed = seed});
}

/// Calls a function of Python with the whole tensor, on this thread.
void fill_by(Table& table, const py::function& set) {
  table.fill(Custom([&](at::Tensor& tensor) { set(tensor); }));
}

std::string pages_of(const Table& table) {
  if (!table.memory()->on_host()) return {};
  return pages_got(table.memory()->data(), table.bytes());
}

double resident_of(const Table& table) {
  if (!table.memory()->on_host())
    throw PlacementError("the table is in device memory; the host's memory alone can be resident");
  return resident_fraction(table.memory()->data(), table.bytes());
}

void flush(const Table& table) {
  if (const auto file = table.file()) file->flush();
}

FileEngine engine_of(const std::string& name) {
  if (name == "automatic") return FileEngine::automatic;
  if (name == "io_uring") return FileEngine::io_uring;
  if (name == "advice") return FileEngine::advice;
  throw OptionError("engine is '" + name + "'; choose automatic, io_uring, advice");
}

/// `shape` with `count` rows.
Sizes with_rows(at::IntArrayRef shape, std::int64_t count) {
  Sizes sizes = shape.vec();
  sizes.front() = count;
  return sizes;
}

/// A new tensor for rows of that shape and dtype, of the shape [*index.shape, *shape[1:]].
at::Tensor new_rows(at::IntArrayRef shape, at::ScalarType dtype, const at::Tensor& index) {
  Sizes sizes = index.sizes().vec();
  sizes.insert(sizes.end(), shape.begin() + 1, shape.end());
  return new_output(sizes, dtype);
}

/// Reads rows of the array of a file.
class FileReader {
 public:
  FileReader(const std::string& path, const std::string& engine, int depth, bool copy_cached)
      : file_(open_array(path, Access::read_only)),
        rows_(file_table(file_), {.engine = engine_of(engine), .depth = depth, .copy_cached = copy_cached}) {}

  [[nodiscard]] at::Tensor gather(const at::Tensor& index) {
    auto out = new_rows(shape(), dtype(), index);
    gather_out(index, out.view(with_rows(shape(), index.numel())));
    return out;
  }
  void gather_out(const at::Tensor& index, at::Tensor out) { rows_.gather(index.contiguous(), out); }

  [[nodiscard]] const Sizes& shape() const { return file_.shape; }
  [[nodiscard]] at::ScalarType dtype() const { return file_.dtype; }
  [[nodiscard]] std::string engine() const {
    return rows_.engine() == FileEngine::io_uring ? "io_uring" : "advice";
  }

 private:
  ArrayFile file_;
  FileRows rows_;
};

void bind_file_rows(py::module_& module) {
  py::class_<FileReader>(module, "FileRows")
      .def(py::init<const std::string&, const std::string&, int, bool>(), Released())
      .def("gather", &FileReader::gather, Released())
      .def("gather_out", &FileReader::gather_out, Released())
      .def_property_readonly("shape", &FileReader::shape)
      .def_property_readonly("dtype", &FileReader::dtype)
      .def_property_readonly("engine", &FileReader::engine);
}

CacheWrites writes_of(const std::string& name) {
  if (name == "none") return CacheWrites::none;
  if (name == "through") return CacheWrites::through;
  if (name == "back") return CacheWrites::back;
  throw OptionError("writes is '" + name + "'; choose none, through, back");
}

std::unique_ptr<RowCache> open_cache(const std::string& path, std::int64_t bytes, const std::string& writes,
                                     const std::string& engine, int depth, bool copy_cached) {
  return RowCache::open(path,
                        {.bytes = bytes,
                         .reads = {.engine = engine_of(engine), .depth = depth, .copy_cached = copy_cached},
                         .writes = writes_of(writes)});
}

at::Tensor gather_cached(RowCache& cache, const at::Tensor& index) {
  auto out = new_rows(cache.shape(), cache.dtype(), index);
  auto rows = out.view(with_rows(cache.shape(), index.numel()));
  cache.gather(index.contiguous(), rows);
  return out;
}

void scatter_cached(RowCache& cache, const at::Tensor& index, const at::Tensor& values) {
  if (values.scalar_type() != cache.dtype())
    throw ShapeError(std::string("the values are ") + c10::toString(values.scalar_type()) +
                     ", the file's rows " + c10::toString(cache.dtype()));
  const auto rows = with_rows(cache.shape(), index.numel());
  const auto flat = values.contiguous();
  cache.scatter(index.contiguous(), flat.numel() == c10::multiply_integers(rows) ? flat.view(rows) : flat);
}

void bind_row_cache(py::module_& module) {
  using Seen = RowCacheStatistics;
  py::class_<RowCache>(module, "RowCache")
      .def(py::init(&open_cache), Released())
      .def("gather", &gather_cached, Released())
      .def(
          "gather_out",
          [](RowCache& cache, const at::Tensor& index, at::Tensor out) {
            cache.gather(index.contiguous(), out);
          },
          Released())
      .def(
          "prefetch", [](RowCache& cache, const at::Tensor& index) { cache.prefetch(index.contiguous()); },
          Released())
      .def("scatter", &scatter_cached, Released())
      .def("flush", &RowCache::flush, Released())
      .def_property_readonly("statistics", &RowCache::statistics)
      .def_property_readonly("shape", [](const RowCache& cache) { return cache.shape().vec(); })
      .def_property_readonly("dtype", &RowCache::dtype);
  py::class_<Seen>(module, "RowCacheStatistics")
      .def_readonly("hits", &Seen::hits)
      .def_readonly("misses", &Seen::misses)
      .def_readonly("reads", &Seen::reads)
      .def_readonly("prefetched", &Seen::prefetched)
      .def_readonly("evictions", &Seen::evictions)
      .def_readonly("written_back", &Seen::written_back)
      .def_readonly("slots", &Seen::slots)
      .def_readonly("bytes", &Seen::bytes)
      .def_property_readonly("hit_rate", &Seen::hit_rate);
}

}  // namespace

Placement placement_of(const std::string& name) {
  std::string all;
  for (int k = 0; k <= static_cast<int>(Placement::device); ++k) {
    const auto placement = static_cast<Placement>(k);
    if (to_string(placement) == name) return placement;
    all += (k > 0 ? ", " : "") + std::string(to_string(placement));
  }
  throw OptionError("placement is '" + name + "'; choose " + all);
}

TableOptions table_options(const std::string& placement, at::Device device, std::string file, bool shared) {
  return {.placement = placement_of(placement), .device = device, .file = std::move(file), .shared = shared};
}

void bind_tables(py::module_& module) {
  bind_file_rows(module);
  bind_row_cache(module);
  module.def("placements", &placements);
  py::class_<Table>(module, "Table")
      .def_static("empty", &empty, Released())
      .def_static("from_array", &from_array, Released())
      .def_static("from_file", &from_file, Released())
      .def_static("from_torch", &from_torch, Released())
      .def(
          "fill_zeros", [](Table& table) { table.fill(Zeros{}); }, Released())
      .def("fill_uniform", &fill_uniform, Released())
      .def("fill_normal", &fill_normal, Released())
      .def("fill_by", &fill_by)
      .def("set", &Table::set, Released())
      .def("load", &Table::load, Released())
      .def("tensor", &Table::tensor)
      .def("host_tensor", &Table::host_tensor)
      .def("host_copy", &host_copy, Released())
      .def("require_writable", &Table::require_writable)
      .def(
          "gather",
          [](const Table& table, const at::Tensor& index, at::Device device) {
            return gather_rows(table, index, device);
          },
          Released())
      .def(
          "gather_out",
          [](const Table& table, const at::Tensor& index, at::Tensor out) { gather_rows(table, index, out); },
          Released())
      .def(
          "scatter",
          [](const Table& table, const at::Tensor& index, const at::Tensor& values,
             const std::string& duplicates) {
            scatter_rows(table, index, values, duplicates_of(duplicates));
          },
          Released())
      .def(
          "save_npy", [](const Table& table, const std::string& path) { save_npy(table, path); }, Released())
      .def(
          "save_torch", [](const Table& table, const std::string& path) { save_torch(table, path); },
          Released())
      .def("flush", &flush, Released())
      .def("pages_got", &pages_of)
      .def("resident_fraction", &resident_of)
      .def_property_readonly("placement",
                             [](const Table& table) { return std::string(to_string(table.placement())); })
      .def_property_readonly("shape", [](const Table& table) { return table.sizes().vec(); })
      .def_property_readonly("dtype", &Table::dtype)
      .def_property_readonly("device", [](const Table& table) { return table.memory()->device(); })
      .def_property_readonly("nbytes", &Table::bytes);
}

}  // namespace speedtorch::python

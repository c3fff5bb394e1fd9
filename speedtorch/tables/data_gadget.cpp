#include "speedtorch/tables/data_gadget.h"

#include <ATen/ops/from_blob.h>

#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/tables/saved_tables.h"

namespace speedtorch {

DataGadget::DataGadget(Table table, at::Device model) : table_(std::move(table)), model_(model) {}

DataGadget DataGadget::from_file(const std::string& path, const TableOptions& options, at::Device model,
                                 Access access) {
  return DataGadget(Table::from_file(path, options, access), model);
}

DataGadget DataGadget::from_tensor(const at::Tensor& tensor, const TableOptions& options, at::Device model) {
  return DataGadget(Table::from_array(tensor, options), model);
}

DataGadget DataGadget::from_memory(const void* values, std::size_t count, at::ScalarType dtype,
                                   at::IntArrayRef sizes, const TableOptions& options, at::Device model) {
  if (static_cast<std::int64_t>(count) != c10::multiply_integers(sizes)) {
    throw ShapeError("an array of " + std::to_string(count) + " elements is not of shape " + c10::str(sizes) +
                     ", which has " + std::to_string(c10::multiply_integers(sizes)));
  }
  // The table is a copy, so the values are only read.
  return from_tensor(at::from_blob(const_cast<void*>(values), sizes, at::TensorOptions().dtype(dtype)),
                     options, model);
}

void DataGadget::insert_data(const at::Tensor& values, const RowIndex& index, Duplicates duplicates) {
  if (prefetcher_) return prefetcher_->scatter(index, values, duplicates);
  scatter_rows(table_, index, values, duplicates);
}

void DataGadget::prefetch(const RowIndex& index) {
  if (!prefetcher_) prefetcher_ = std::make_unique<Prefetcher>(table_, model_);
  prefetcher_->submit(index);
}

at::Tensor DataGadget::take() {
  if (!prefetcher_) throw OrderError("no batch is in flight; prefetch() one first");
  return prefetcher_->take();
}

void DataGadget::save(const std::string& path) const { save_npy(table_, path); }

void DataGadget::load(const std::string& path) {
  if (prefetcher_ && prefetcher_->in_flight() > 0)
    throw OrderError(std::to_string(prefetcher_->in_flight()) + " batches are in flight; take() them first");
  table_.load(path);
}

}  // namespace speedtorch

#include "speedtorch/tables/saved_tables.h"

#include <caffe2/serialize/inline_container.h>
#include <sys/stat.h>
#include <torch/csrc/jit/serialization/import_read.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <exception>
#include <string_view>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/files/archive.h"
#include "speedtorch/files/npy_array.h"
#include "speedtorch/files/npy_elements.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/tables/table_rows.h"

namespace speedtorch {
namespace {

/// True if `path` is the file that the table lives in.
bool is_its_file(const Table& table, const std::string& path) {
  struct stat own {
  }, other{};
  const auto file = table.file();
  return file && ::fstat(file->fd(), &own) == 0 && ::stat(path.c_str(), &other) == 0 &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

at::Tensor on_host(const Table& table) {
  if (!table.memory()->on_host()) return host_copy(table);
  wait_for_gpu(table);
  return table.host_tensor();
}

/// torch's name for a file's single object.
constexpr const char* kPickle = "data";

/// Writes the zip file around a pickle and its tensors. LibTorch's writer ends the process if a write fails,
/// even if it is told so. So it always runs to its end, and this function then rethrows what a write threw.
void write_archive(Replacement& file, const std::string& pickle, const std::vector<at::Tensor>& tensors) {
  std::exception_ptr failed;
  const auto write = [&](const void* bytes, std::size_t count) {
    try {
      if (!failed) file.append({static_cast<const char*>(bytes), count});
    } catch (...) {
      failed = std::current_exception();
    }
    return count;
  };
  caffe2::serialize::PyTorchStreamWriter writer(write);
  const std::string name = kPickle;
  writer.writeRecord(name + ".pkl", pickle.data(), pickle.size());
  for (std::size_t k = 0; k < tensors.size(); ++k)
    writer.writeRecord(name + "/" + std::to_string(k), tensors[k].const_data_ptr(),
                       tensors[k].storage().nbytes());
  writer.writeEndOfFile();
  if (failed) std::rethrow_exception(failed);
}

at::Tensor read_tensor(const std::string& path) {
  return read_archive(path, "cannot be read as torch's format", [&] {
    caffe2::serialize::PyTorchStreamReader reader(path);
    const auto value = torch::jit::readArchiveAndTensors(kPickle, "", "", std::nullopt, std::nullopt,
                                                         at::Device(at::kCPU), reader);
    if (value.isTensor()) return value.toTensor();
    throw FileError("'" + base_name(path) + "' holds a " + value.tagKind() + ", not one tensor");
  });
}

}  // namespace

void save_npy(const Table& table, const std::string& path) {
  if (is_its_file(table, path)) return table.file()->flush();
  Replacement file(path);
  file.append(numpys_header(npy_element_of(table.dtype()), table.sizes()));
  each_piece(table, kPieceBytes, [&](const at::Tensor& rows, std::int64_t) {
    file.append({static_cast<const char*>(rows.const_data_ptr()), rows.nbytes()});
  });
  file.publish();
}

void save_torch(const Table& table, const std::string& path) {
  Replacement file(path);
  std::string pickle;
  torch::jit::Pickler pickler([&](const char* bytes, std::size_t count) { pickle.append(bytes, count); });
  pickler.protocol();
  pickler.pushIValue(on_host(table));
  pickler.stop();
  write_archive(file, pickle, pickler.tensorData());
  file.publish();
}

Table load_torch(const std::string& path, const TableOptions& options) {
  const auto array = read_tensor(path);
  return Table::from_array(array, options);
}

}  // namespace speedtorch

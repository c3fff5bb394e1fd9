#include "speedtorch/tables/saved_tables.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <string>

#include "speedtorch/error.h"
#include "speedtorch/files/npy.h"
#include "tests/harness/temporary_folder.h"

namespace speedtorch {
namespace {

using stbench::test::TemporaryFolder;
using testing::HasSubstr;
using testing::ThrowsMessage;

class SavedTables : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }
  TemporaryFolder folder_;
};

/// Files exchanged with Python.
class SavedTablesAndPython : public SavedTables {
 protected:
  void SetUp() override {
    if (std::string_view(STBENCH_PYTHON).empty())
      GTEST_SKIP() << "STBENCH_PYTHON is not set (a Python with NumPy and torch)";
  }
  void run(const std::string& code) const {
    const auto script = folder_.write("script.py", code);
    const std::string command = "cd " + folder_.path().string() + " && " STBENCH_PYTHON " " + script;
    EXPECT_EQ(std::system(command.c_str()), 0) << code;
  }
};

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kInt,  at::kLong,
                                      at::kHalf,  at::kBool,   at::kByte, at::kComplexFloat};

TEST_F(SavedTablesAndPython, NpyIsByteForByteWhatNumPyWrites) {
  for (const auto dtype : kDtypes) {
    const std::string name = c10::toString(dtype);
    save_npy(Table::from_array((at::arange(420) % 2).to(dtype).view({70, 3, 2})), path(name + "3.npy"));
    save_npy(Table::from_array((at::arange(12'345) % 2).to(dtype)), path(name + "1.npy"));
    save_npy(Table::empty({0, 5}, dtype), path(name + "0.npy"));
  }
  run("import io, pathlib, numpy as np\n"
      "files = sorted(pathlib.Path('.').glob('*.npy'))\n"
      "assert len(files) == 24, files\n"
      "for file in files:\n"
      "  array, again = np.load(file), io.BytesIO()\n"
      "  np.save(again, array)\n"
      "  assert again.getvalue() == file.read_bytes(), file\n"
      "  shape = {'0': (0, 5), '1': (12345,), '3': (70, 3, 2)}[file.stem[-1]]\n"
      "  assert (array == (np.arange(array.size) % 2).astype(array.dtype).reshape(shape)).all(), file\n"
      "assert np.load('Double1.npy').dtype == np.float64 and np.load('Int3.npy').dtype == np.int32\n");
}

TEST_F(SavedTablesAndPython, TorchReadsWhatWeSave) {
  for (const auto dtype : kDtypes)
    save_torch(Table::from_array((at::arange(420) % 2).to(dtype).view({70, 3, 2})),
               path(std::string(c10::toString(dtype)) + ".pt"));
  save_torch(Table::filled({20'000, 64}, at::kBFloat16, Uniform{1, 2, 7}), path("large.pt"));
  run("import pathlib, torch\n"
      "files = sorted(p for p in pathlib.Path('.').glob('*.pt') if p.stem != 'large')\n"
      "assert len(files) == 8, files\n"
      "for file in files:\n"
      "  tensor = torch.load(file, weights_only=True)\n"
      "  assert tensor.shape == (70, 3, 2) and tensor.device.type == 'cpu', file\n"
      "  assert torch.equal(tensor, (torch.arange(420) % 2).to(tensor.dtype).view(70, 3, 2)), file\n"
      "large = torch.load('large.pt', weights_only=True, mmap=True)\n"
      "assert large.dtype == torch.bfloat16 and 1 <= large.min() and large.max() < 2\n");
}

TEST_F(SavedTablesAndPython, WeReadWhatTorchSaves) {
  run("import torch\n"
      "for dtype in 'float32 float64 int32 int64 float16 bfloat16 bool uint8 complex64'.split():\n"
      "  torch.save((torch.arange(420) % 2).to(getattr(torch, dtype)).view(70, 3, 2), dtype + '.pt')\n"
      "torch.save(torch.arange(60.).view(10, 6)[2:8, ::2], 'view.pt')\n"
      "torch.save(torch.nn.Parameter(torch.ones(3, 2)).data, 'parameter.pt')\n"
      "torch.save({'a': torch.ones(3)}, 'dictionary.pt')\n");
  const std::pair<const char*, at::ScalarType> dtypes[] = {
      {"float32", at::kFloat}, {"float64", at::kDouble}, {"int32", at::kInt},
      {"int64", at::kLong},    {"float16", at::kHalf},   {"bfloat16", at::kBFloat16},
      {"bool", at::kBool},     {"uint8", at::kByte},     {"complex64", at::kComplexFloat}};
  for (const auto& [name, dtype] : dtypes) {
    for (const auto placement : {Placement::libtorch, Placement::hugepage, Placement::mapped}) {
      const auto table = load_torch(path(std::string(name) + ".pt"), {.placement = placement});
      EXPECT_EQ(table.placement(), placement);
      EXPECT_EQ(table.dtype(), dtype);
      EXPECT_TRUE(at::equal(table.tensor(), (at::arange(420) % 2).to(dtype).view({70, 3, 2}))) << name;
    }
  }
  EXPECT_TRUE(at::equal(load_torch(path("view.pt")).tensor(),
                        at::arange(60, at::kFloat).view({10, 6}).slice(0, 2, 8).slice(1, 0, 6, 2)));
  EXPECT_EQ(load_torch(path("parameter.pt")).tensor().sum().item<float>(), 6);
  EXPECT_THAT([&] { (void)load_torch(path("dictionary.pt")); },
              ThrowsMessage<FileError>(HasSubstr("'dictionary.pt' holds")));
}

TEST_F(SavedTables, TorchFormatRoundTripsBetweenPlacements) {
  const auto source = at::randn({100, 7});
  for (const auto from : {Placement::libtorch, Placement::pageable, Placement::mapped}) {
    save_torch(Table::from_array(source, {.placement = from}), path("t.pt"));
    EXPECT_TRUE(at::equal(load_torch(path("t.pt")).tensor(), source));
  }
}

TEST_F(SavedTables, ReplaceTheFileOfThatName) {
  for (const auto& save : {&save_npy, &save_torch}) {
    save(Table::from_array(at::zeros({5, 2})), path("t"));
    save(Table::from_array(at::ones({6, 2})), path("t"));
    EXPECT_EQ(files(), 1U);
  }
  EXPECT_EQ(load_torch(path("t")).tensor().sum().item<float>(), 12);
}

TEST_F(SavedTables, AMappedTableIsNotSavedOverItself) {
  const auto table =
      Table::filled({50, 2}, at::kFloat, Uniform{}, {.placement = Placement::mapped, .file = path("t.npy")});
  table.tensor().fill_(3);
  save_npy(table, path("t.npy"));
  EXPECT_EQ(files(), 1U);
  table.tensor()[7].fill_(4);  // still the same file
  EXPECT_EQ(Table::from_file(path("t.npy")).tensor()[7][1].item<float>(), 4);
  save_npy(table, path("other.npy"));
  EXPECT_EQ(Table::from_file(path("other.npy")).tensor().sum().item<float>(), 302);
}

TEST_F(SavedTables, RefuseOtherFiles) {
  folder_.write("text.pt", "no zip file, but long enough to look into it for one");
  folder_.write("empty.pt", "");
  for (const char* name : {"text.pt", "empty.pt", "none.pt", "."})
    EXPECT_THROW((void)load_torch(path(name)), FileError) << name;
  save_torch(Table::from_array(at::ones({1000, 2})), path("cut.pt"));
  std::filesystem::resize_file(path("cut.pt"), 4000);
  EXPECT_THROW((void)load_torch(path("cut.pt")), FileError);
  EXPECT_THROW(save_npy(Table::from_array(at::ones({3, 2})), path("none/t.npy")), FileError);
  EXPECT_THROW(save_npy(Table::empty({3, 2}, at::kComplexHalf), path("t.npy")), NpyError);
}

/// The system refuses a write half way, and the process does not ignore its signal.
TEST_F(SavedTables, AFailedSaveLeavesWhatWasThere) {
  const auto large = Table::filled({100'000, 4}, at::kFloat, Uniform{});
  for (const auto& save : {&save_npy, &save_torch}) {
    save(Table::from_array(at::ones({6, 2})), path("t"));
    const auto before = std::filesystem::file_size(path("t"));
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlimit small{200'000, limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    EXPECT_THROW(save(large, path("t")), FileError);
    setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT_EQ(files(), 1U);
    EXPECT_EQ(std::filesystem::file_size(path("t")), before);
  }
}

}  // namespace
}  // namespace speedtorch

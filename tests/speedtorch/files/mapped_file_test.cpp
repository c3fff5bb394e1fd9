#include "speedtorch/files/mapped_file.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/files/npy_array.h"
#include "speedtorch/system/pages.h"
#include "speedtorch/tables/table_rows.h"
#include "tests/harness/message_of.h"
#include "tests/harness/temporary_folder.h"
#include "tests/paths.h"
#include "tests/speedtorch/files/evicted.h"
#include "tests/speedtorch/infinity/stale_graph.h"

namespace speedtorch {
namespace {

using stbench::test::message_of;
using stbench::test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const std::vector<std::pair<std::string, at::ScalarType>> kKinds{{"bool", at::kBool},
                                                                 {"int8", at::kChar},
                                                                 {"int16", at::kShort},
                                                                 {"int32", at::kInt},
                                                                 {"int64", at::kLong},
                                                                 {"uint8", at::kByte},
                                                                 {"uint16", at::kUInt16},
                                                                 {"uint32", at::kUInt32},
                                                                 {"uint64", at::kUInt64},
                                                                 {"float16", at::kHalf},
                                                                 {"float32", at::kFloat},
                                                                 {"float64", at::kDouble},
                                                                 {"complex64", at::kComplexFloat},
                                                                 {"complex128", at::kComplexDouble}};

/// The 3 x 5 elements of tests/speedtorch/files/numpy_files.py.
at::Tensor expected(at::ScalarType dtype) {
  const auto numbers = at::arange(15, at::kDouble).reshape({3, 5});
  if (dtype == at::kBool) return numbers.remainder(2).to(dtype);
  return c10::isComplexType(dtype) ? at::complex(numbers, 2 * numbers).to(dtype) : numbers.to(dtype);
}

/// Compares bytes, because LibTorch does not compare uint16 to uint64.
bool same(const at::Tensor& one, const at::Tensor& other) {
  return one.scalar_type() == other.scalar_type() && one.sizes() == other.sizes() &&
         std::memcmp(one.const_data_ptr(), other.const_data_ptr(), one.nbytes()) == 0;
}

class MappedFiles : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name = "table.npy") const {
    return (folder_.path() / name).string();
  }
  /// A file of 100 x 33 floats, where element i is i.
  [[nodiscard]] std::string counted() const {
    MappedFile::create(path(), {100, 33}, at::kFloat, [](at::Tensor& array) {
      array.copy_(at::arange(3300).reshape({100, 33}));
    });
    return path();
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      found.push_back(entry.path().filename().string());
    return found;
  }
  template <class Error>
  [[nodiscard]] std::string refused(const std::string& at, Access access = Access::read_only) const {
    return message_of<Error>([&] { MappedFile::open(at, access); });
  }

  TemporaryFolder folder_;
};

TEST_F(MappedFiles, AreZerosUntilTheyAreFilled) {
  const auto file = MappedFile::create(path(), {1000, 128}, at::kFloat, {}, Space::sparse);
  EXPECT_EQ(file->placement(), Placement::mapped);
  EXPECT_EQ(file->bytes(), 1000 * 512);
  EXPECT_EQ(file->access(), Access::read_write);
  EXPECT_EQ(file->name(), "table.npy");
  EXPECT_EQ(file->array().sizes(), (at::IntArrayRef{1000, 128}));
  EXPECT_EQ(file->array().data_ptr(), file->data());
  EXPECT_TRUE(file->array().eq(0).all().item<bool>());
  struct stat made {};
  ASSERT_EQ(::stat(path().c_str(), &made), 0);
  EXPECT_EQ(made.st_size, 4096 + 1000 * 512);
  EXPECT_LE(made.st_blocks * 512, 16384) << "sparse: but for its header it has no blocks";
}

/// This makes it a table that may be larger than memory: reading two rows brings only the pages around them.
TEST_F(MappedFiles, AreInMemoryOnlyWhereRowsWereRead) {
  constexpr std::int64_t rows = 1 << 19;  // of 128 bytes: 64 MiB, more than two readaheads
  const Uniform numbers{0, 1, 3};
  const auto table = Table::filled({rows, 32}, at::kFloat, numbers, {.placement = Placement::mapped});
  const auto& memory = *table.memory();
  const auto resident = [&] { return resident_fraction(memory.data(), table.bytes()); };
  ASSERT_EQ(test::evicted(memory), 0);
  const auto index = at::tensor({rows / 4, rows - 1}, at::kLong);
  const auto read = gather_rows(table, index, at::kCPU);
  EXPECT_GT(resident(), 0);
  EXPECT_LT(resident(), 0.5);
  const auto in_memory = Table::filled({rows, 32}, at::kFloat, numbers, {.placement = Placement::libtorch});
  EXPECT_TRUE(at::equal(read, in_memory.tensor().index_select(0, index)));
}

TEST_F(MappedFiles, KeepEachDtypeAndShape) {
  auto kinds = kKinds;
  kinds.emplace_back("bfloat16", at::kBFloat16);
  for (const auto& [name, dtype] : kinds) {
    const auto values = expected(dtype);
    MappedFile::create(path(name), values.sizes(), dtype, [&](at::Tensor& array) { array.copy_(values); });
    const auto file = MappedFile::open(path(name), Access::read_only);
    EXPECT_EQ(file->dtype(), dtype);
    EXPECT_EQ(file->shape(), values.sizes());
    EXPECT_TRUE(same(file->array(), values)) << name;
  }
  for (const auto& shape : {std::vector<std::int64_t>{}, {0}, {0, 128}, {5, 0}, {2, 3, 4, 5}}) {
    std::filesystem::remove(path());
    MappedFile::create(path(), shape, at::kLong);
    EXPECT_EQ(MappedFile::open(path(), Access::read_write)->array().sizes(), at::IntArrayRef(shape));
  }
}

TEST_F(MappedFiles, RefuseDtypesThatNumPyLacks) {
  for (const auto dtype : {at::kComplexHalf, at::kFloat8_e4m3fn, at::kQInt8}) {
    EXPECT_THAT(message_of<NpyError>([&] { MappedFile::create(path(), {3}, dtype); }),
                AllOf(StartsWith("'table.npy'"), HasSubstr(c10::toString(dtype))));
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(MappedFiles, AppearWhenTheyAreFilledAndNotBefore) {
  const auto file = MappedFile::create(path(), {10, 4}, at::kInt, [&](at::Tensor& array) {
    EXPECT_THAT(names(), Not(testing::Contains("table.npy")));
    array.fill_(7);
  });
  EXPECT_THAT(names(), ElementsAre("table.npy"));
  EXPECT_TRUE(MappedFile::open(path(), Access::read_only)->array().eq(7).all().item<bool>());
}

TEST_F(MappedFiles, LeaveNothingIfTheFillFails) {
  at::Tensor kept;
  EXPECT_THROW(MappedFile::create(path(), {10, 4}, at::kInt,
                                  [&](at::Tensor& array) {
                                    kept = array;
                                    throw std::runtime_error("no values");
                                  }),
               std::runtime_error);
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_TRUE(kept.fill_(1).eq(1).all().item<bool>()) << "its memory is still the tensor's";
}

TEST_F(MappedFiles, NeverReplaceAnother) {
  const auto other = folder_.write("table.npy", "the other's");
  EXPECT_THAT(message_of<FileError>([&] { MappedFile::create(other, {3}, at::kInt); }),
              HasSubstr("File exists"));
  std::filesystem::remove(other);
  EXPECT_THROW(MappedFile::create(other, {3}, at::kInt,
                                  [&](at::Tensor&) { folder_.write("table.npy", "the quicker's"); }),
               FileError);
  std::string content;
  std::getline(std::ifstream(other), content);
  EXPECT_EQ(content, "the quicker's");
  EXPECT_THAT(names(), ElementsAre("table.npy"));
}

TEST_F(MappedFiles, RefuseMissingAndIrregularFiles) {
  EXPECT_THAT(refused<FileError>(path()), AllOf(HasSubstr("'table.npy'"), HasSubstr("No such file"),
                                                Not(HasSubstr(folder_.path().string()))));
  std::filesystem::create_directory(path("folder"));
  EXPECT_THAT(refused<FileError>(path("folder")), HasSubstr("'folder' is a folder"));
  EXPECT_THAT(refused<FileError>(path("folder"), Access::read_write), HasSubstr("Is a directory"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(refused<FileError>(path("pipe")), HasSubstr("'pipe' is not a regular file"))
      << "and did not wait";
  EXPECT_THAT(refused<FileError>("/dev/zero"), HasSubstr("'zero' is not a regular file"));
}

/// Permissions do not restrict root, so the test asks as another user.
TEST_F(MappedFiles, DoNotOpenUnwritableFilesForWriting) {
  const auto file = counted();
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0555));
  std::filesystem::permissions(file, std::filesystem::perms(0444));
  const bool root = ::geteuid() == 0;
  ASSERT_EQ(root ? ::seteuid(65534) : 0, 0);
  const auto message = message_of<FileError>([&] { MappedFile::open(file, Access::read_write); });
  const auto folder_message =
      message_of<FileError>([&] { MappedFile::create(path("new.npy"), {3}, at::kInt); });
  const auto sum = MappedFile::open(file, Access::read_only)->array().sum().item<float>();
  ASSERT_EQ(root ? ::seteuid(0) : 0, 0);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  EXPECT_THAT(message, AllOf(HasSubstr("cannot be opened for writing"), HasSubstr("Permission denied")));
  EXPECT_THAT(folder_message, HasSubstr("Permission denied"));
  EXPECT_GT(sum, 0);
}

TEST_F(MappedFiles, RefuseRowsIfOpenReadOnly) {
  const auto file = MappedFile::open(counted(), Access::read_only);
  EXPECT_THAT(message_of<FileError>([&] {
                scatter_rows(*file, at::zeros({1}, at::kLong), at::zeros({1, 33}));
              }),
              AllOf(HasSubstr("'table.npy'"), HasSubstr("read_only")));
  EXPECT_NO_THROW(file->flush()) << "nothing was written";
  EXPECT_EQ(file->array()[99][32].item<float>(), 3299);
}

TEST_F(MappedFiles, RefuseDamagedFilesByName) {
  const auto write = [&](const std::string& descr, const std::string& shape, std::size_t bytes) {
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(117, ' ');
    return folder_.write("bad.npy",
                         std::string("\x93NUMPY\x01\x00v\x00", 10) + header + "\n" + std::string(bytes, 'x'));
  };
  EXPECT_NO_THROW(MappedFile::open(write("<f4", "(3, 5)", 60), Access::read_only));
  EXPECT_THAT(refused<NpyError>(write("<f4", "(3, 5)", 59)),
              AllOf(StartsWith("'bad.npy': "), HasSubstr("cut off")));
  EXPECT_THAT(refused<NpyError>(write("<f4", "(3, 5)", 64)), HasSubstr("longer than its header"));
  EXPECT_THAT(refused<NpyError>(write("<f4", "(4611686018427387903, 2)", 64)), HasSubstr("2^63 - 1"));
  EXPECT_THAT(refused<NpyError>(write(">f4", "(3, 5)", 60)), HasSubstr("big-endian"));
  EXPECT_THAT(refused<NpyError>(write("|O", "(3, 5)", 60)), HasSubstr("Python objects"));
  for (const char* content : {"", "\x93NUMPY", "PK\x03\x04 an .npz file", "not numpy at all"})
    EXPECT_THAT(refused<NpyError>(folder_.write("bad.npy", content)), StartsWith("'bad.npy': the"));
}

TEST_F(MappedFiles, EachCheckedOperationDetectsAShrunkFile) {
  const auto file = MappedFile::open(counted(), Access::read_write);
  const auto index = at::zeros({1}, at::kLong);
  auto row = at::zeros({1, 33});
  file->check();
  ASSERT_EQ(::truncate(path().c_str(), 4096 + 13199), 0);
  const std::vector<std::function<void()>> operations{[&] { file->check(); },
                                                      [&] { (void)file->array(); },
                                                      [&] { file->flush(); },
                                                      [&] { file->flush(0, 1); },
                                                      [&] { gather_rows(*file, index, row); },
                                                      [&] { scatter_rows(*file, index, row); },
                                                      [&] { (void)file->pin(at::kCUDA); }};
  for (const auto& operation : operations) {
    EXPECT_THAT(message_of<FileError>(operation),
                AllOf(HasSubstr("'table.npy' was shrunk"), HasSubstr("17296"), HasSubstr("17295")));
  }
  ASSERT_EQ(::truncate(path().c_str(), 4096 + 13200), 0);
  EXPECT_NO_THROW(file->check()) << "it has its size again";
}

TEST_F(MappedFiles, MoveRowsInPlaceToTheLast) {
  const auto file = MappedFile::open(counted(), Access::read_write);
  const auto index = at::tensor({99, 0, 50}, at::kLong);
  auto rows = at::empty({3, 33});
  gather_rows(*file, index, rows);
  EXPECT_TRUE(at::equal(rows, at::arange(3300).to(at::kFloat).reshape({100, 33}).index_select(0, index)));
  scatter_rows(*file, index, rows.neg());
  file->flush(99, 1);
  float last = 0;
  ASSERT_EQ(::pread(file->fd(), &last, 4, file->data_offset() + 3299 * 4), 4);
  EXPECT_EQ(last, -3299);
  EXPECT_THROW(gather_rows(*file, at::tensor({100, 0, 0}, at::kLong), rows), IndexError);
  EXPECT_THROW(scatter_rows(*file, index, at::zeros({3, 32})), ShapeError);
}

TEST_F(MappedFiles, TellAutogradOfWrites) {
  const auto file = MappedFile::open(counted(), Access::read_write);
  const auto index = at::tensor({99, 0, 50}, at::kLong);
  auto rows = at::empty({3, 33});
  EXPECT_FALSE(test::write_is_noticed(file->array(), [&] { gather_rows(*file, index, rows); }));
  EXPECT_TRUE(test::write_is_noticed(file->array(), [&] { scatter_rows(*file, index, rows); }));
}

TEST_F(MappedFiles, ShowWritesToAllWhoHaveThemOpen) {
  const auto writer = MappedFile::open(counted(), Access::read_write);
  const auto reader = MappedFile::open(path(), Access::read_only);
  writer->array()[7].fill_(5);
  EXPECT_EQ(reader->array()[7].sum().item<float>(), 5 * 33);
}

TEST_F(MappedFiles, FlushOnlyRowsThatTheyHave) {
  const auto file = MappedFile::open(counted(), Access::read_write);
  EXPECT_NO_THROW(file->flush(100, 0));
  for (const auto& [first, rows] : {std::pair<std::int64_t, std::int64_t>{0, 101},
                                    {100, 1},
                                    {-1, 1},
                                    {0, -1},
                                    {101, 0},
                                    {1, std::numeric_limits<std::int64_t>::max()}}) {
    EXPECT_THAT(
        message_of<ShapeError>([&, first = first, rows = rows] { file->flush(first, rows); }),
        AllOf(HasSubstr(std::to_string(rows) + " rows from row " + std::to_string(first)), HasSubstr("100")));
  }
  MappedFile::create(path("scalar"), {}, at::kInt)->flush(0, 1);
  MappedFile::create(path("empty"), {0, 5}, at::kInt)->flush(0, 0);
}

/// The boundaries of 2^31 elements and bytes, and the last row.
TEST_F(MappedFiles, MoveEachRowOfMoreThan31BitsOfElements) {
  const std::int64_t rows = (1 << 22) + 3;
  const auto file = MappedFile::create(path(), {rows, 512}, at::kByte, {}, Space::sparse);
  ASSERT_GT(file->bytes(), std::int64_t{1} << 31);
  const auto index =
      at::tensor({std::int64_t{0}, rows - 1, std::int64_t{1} << 22, (std::int64_t{1} << 22) - 1,
                  (std::int64_t{1} << 21) - 1, std::int64_t{1} << 21},
                 at::kLong);
  const auto values = at::randint(1, 255, {6, 512}, at::kByte);
  scatter_rows(*file, index, values);
  file->flush();
  auto again = at::zeros({6, 512}, at::kByte);
  gather_rows(*MappedFile::open(path(), Access::read_only), index, again);
  EXPECT_TRUE(at::equal(again, values));
  for (int i = 0; i < 6; ++i) {
    auto row = at::zeros({512}, at::kByte);
    ASSERT_EQ(::pread(file->fd(), row.data_ptr(), 512, 4096 + index[i].item<std::int64_t>() * 512), 512);
    EXPECT_TRUE(at::equal(row, values[i])) << i;
  }
  struct stat made {};
  ASSERT_EQ(::stat(path().c_str(), &made), 0);
  EXPECT_LT(made.st_blocks * 512, 1 << 20) << "only what was written has blocks";
}

/// Address space that the process uses, bytes.
rlim_t taken_bytes() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(MappedFiles, RefuseSizesBeyondTheAddressSpaceAndLeaveNothing) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const struct rlimit small { taken_bytes() + (1U << 30), before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &small), 0);
  const auto message = message_of<MemoryError>(
      [&] { MappedFile::create(path(), {std::int64_t{2} << 30}, at::kByte, {}, Space::sparse); });
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_THAT(message, AllOf(HasSubstr("2147487744"), HasSubstr("mmap")));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(MappedFiles, LiveAsLongAsTheirLastTensor) {
  std::weak_ptr<MappedFile> watched;
  at::Tensor row;
  int fd = -1;
  {
    const auto file = MappedFile::open(counted(), Access::read_only);
    watched = file;
    fd = file->fd();
    row = file->array()[99];
  }
  std::filesystem::remove(path());
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(row[32].item<float>(), 3299);
  row.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "closed";
}

std::size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::string mappings_of(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  std::string found;
  for (std::string line; std::getline(maps, line);)
    if (line.find(name) != std::string::npos) found += line + "\n";
  return found;
}

TEST_F(MappedFiles, LeakNeitherDescriptorsNorMappings) {
  const auto bad = folder_.write("bad.npy", "not numpy at all");
  const auto good = counted();
  const auto before = open_files();
  for (int i = 0; i < 100; ++i) {
    EXPECT_GT(MappedFile::open(good, Access::read_write)->array().sum().item<float>(), 0);
    EXPECT_THROW(MappedFile::open(bad, Access::read_only), NpyError);
    EXPECT_THROW(MappedFile::create(good, {3}, at::kInt), FileError);
    EXPECT_THROW(MappedFile::create(path("huge"), {std::int64_t{1} << 60}, at::kByte), FileError);
    MappedFile::create(path("new.npy"), {3}, at::kInt);
    std::filesystem::remove(path("new.npy"));
  }
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(mappings_of(folder_.path().string()), "");
}

TEST_F(MappedFiles, MayBeOpenedAndReadByManyThreads) {
  const auto wanted = at::arange(3300).to(at::kFloat).reshape({100, 33});
  const auto name = counted();
  std::array<int, 8> right{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < right.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto index = at::tensor({std::int64_t(i), std::int64_t(99 - i)}, at::kLong);
      for (int round = 0; round < 50; ++round) {
        const auto file = MappedFile::open(name, round % 2 == 0 ? Access::read_only : Access::read_write);
        auto rows = at::empty({2, 33});
        gather_rows(*file, index, rows);
        right[i] += at::equal(rows, wanted.index_select(0, index)) ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(right, testing::Each(50));
}

/// On an O_NONBLOCK descriptor, io_uring answers "try again" instead of waiting for the disk.
TEST_F(MappedFiles, ReadsThroughTheirDescriptorWait) {
  const auto file = MappedFile::open(counted(), Access::read_only);
  EXPECT_EQ(::fcntl(file->fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(file->fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(MappedFiles, AreStagedForAMissingGpu) {
  if (cuda_status().available) GTEST_SKIP() << "there is a GPU: pinned_file_device_test covers it";
  const auto file = MappedFile::open(counted(), Access::read_only);
  const auto pinned = file->pin(at::Device("cuda:0"));
  EXPECT_EQ(pinned.memory, nullptr);
  EXPECT_THAT(pinned.reason, AllOf(StartsWith("staged: "), HasSubstr("needs CUDA"), HasSubstr("missing")));
  EXPECT_THAT(message_of<PlacementError>([&] { (void)file->pin(at::kCPU); }), HasSubstr("not for cpu"));
}

/// Files exchanged with NumPy.
class MappedFilesAndNumPy : public MappedFiles {
 protected:
  void SetUp() override {
    if (std::string_view(STBENCH_PYTHON).empty())
      GTEST_SKIP() << "STBENCH_PYTHON is not set (a Python with NumPy)";
  }
  void run_numpy(const std::string& what) const {
    const std::string command = std::string(STBENCH_PYTHON) + " '" + stbench::test::source_folder() +
                                "/tests/speedtorch/files/numpy_files.py' " + what + " " +
                                folder_.path().string();
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
};

TEST_F(MappedFilesAndNumPy, ReadEachDtypeAndVersionAsNumPyWroteIt) {
  run_numpy("write 2>/dev/null");  // NumPy warns of version 2.0
  for (const auto& [kind, dtype] : kKinds) {
    for (const char* version : {"1", "2", "3"}) {
      const auto file = MappedFile::open(path(kind + "-" + version + ".npy"), Access::read_write);
      EXPECT_TRUE(same(file->array(), expected(dtype))) << kind << " " << version;
      scatter_rows(*file, at::tensor({2, 1, 0}, at::kLong), expected(dtype).flip(0));
    }
  }
}

TEST_F(MappedFilesAndNumPy, NumPyReadsAndMapsEachDtype) {
  auto kinds = kKinds;
  kinds.emplace_back("bfloat16", at::kBFloat16);
  for (const auto& [kind, dtype] : kinds) {
    MappedFile::create(path(kind + ".npy"), {3, 5}, dtype,
                       [dtype = dtype](at::Tensor& array) { array.copy_(expected(dtype)); });
  }
  MappedFile::create(path("scalar.npy"), {}, at::kInt);
  MappedFile::create(path("empty.npy"), {0, 128}, at::kFloat);
  const auto many =
      MappedFile::create(path("many.npy"), {(1 << 22) + 3, 512}, at::kByte, {}, Space::sparse)->array();
  many[0][0] = 3;
  many[(1 << 22) - 1][511] = 4;
  many[-1][-1] = 5;
  run_numpy("check");
  const auto written_by_numpy = MappedFile::open(path("float32.npy"), Access::read_only);
  EXPECT_EQ(written_by_numpy->array()[2][4].item<float>(), 1);
  EXPECT_EQ(written_by_numpy->array()[2][3].item<float>(), 13);
}

}  // namespace
}  // namespace speedtorch

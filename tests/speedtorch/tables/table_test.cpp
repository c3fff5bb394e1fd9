#include "speedtorch/tables/table.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "speedtorch/error.h"
#include "speedtorch/files/npy.h"
#include "speedtorch/rows/rows.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/host_placements.h"
#include "tests/speedtorch/in_child.h"
#include "tests/speedtorch/process_memory.h"

namespace speedtorch {
namespace {

using stbench::test::TemporaryFolder;
using test::in_child;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t MiB = std::int64_t{1} << 20;

/// The dtypes that NumPy and LibTorch share, and bfloat16.
const std::vector<at::ScalarType> dtypes{at::kBool,         at::kByte,          at::kChar,    at::kShort,
                                         at::kUInt16,       at::kInt,           at::kUInt32,  at::kLong,
                                         at::kUInt64,       at::kHalf,          at::kFloat,   at::kDouble,
                                         at::kComplexFloat, at::kComplexDouble, at::kBFloat16};

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         at::equal(a.contiguous().view({-1}).view(at::kByte), b.contiguous().view({-1}).view(at::kByte));
}

class HostTables : public testing::TestWithParam<Placement> {
 protected:
  [[nodiscard]] static TableOptions options() { return {.placement = GetParam()}; }
};

TEST_P(HostTables, HaveTheRequestedShapeAndDtype) {
  for (const auto dtype : dtypes) {
    for (const auto& sizes :
         {std::vector<std::int64_t>{7}, {5, 3}, {4, 3, 2}, {2, 1, 3, 1, 2}, {0, 4}, {3, 0}}) {
      const auto table = Table::empty(sizes, dtype, options());
      EXPECT_EQ(table.sizes(), at::IntArrayRef(sizes));
      EXPECT_EQ(table.rows(), sizes.front());
      EXPECT_EQ(table.dtype(), dtype);
      EXPECT_EQ(table.placement(), GetParam());
      EXPECT_EQ(table.bytes(),
                c10::multiply_integers(sizes) * static_cast<std::int64_t>(c10::elementSize(dtype)));
      auto tensor = table.tensor();
      EXPECT_EQ(tensor.sizes(), at::IntArrayRef(sizes));
      EXPECT_EQ(tensor.scalar_type(), dtype);
      EXPECT_TRUE(tensor.is_contiguous());
      tensor.zero_();
      EXPECT_EQ(table.host_tensor().data_ptr(), tensor.data_ptr());
    }
  }
}

TEST_P(HostTables, HoldTheSameNumbersInEveryPlacement) {
  for (const Fill& with : {Fill(Zeros{}), Fill(Uniform{-1, 1, 3}), Fill(Normal{0, 1, 3}),
                           Fill(ByPieces([](at::Tensor&rows, std::int64_t first) {
                             for (std::int64_t row = 0; row < rows.size(0); ++row)
                               rows[row].fill_(first + row);
                           }))}) {
    auto expected = at::empty({3001, 33});
    fill(expected, with);
    const auto table = Table::filled({3001, 33}, at::kFloat, with, options());
    EXPECT_TRUE(same_bytes(table.tensor(), expected));
  }
}

TEST_P(HostTables, CopyArraysOfEveryDtypeAndLayout) {
  for (const auto dtype : dtypes) {
    const auto array = at::arange(6 * 5 * 4)
                           .to(at::kDouble)
                           .remainder(2 + (dtype == at::kBool ? 0 : 98))
                           .to(dtype)
                           .view({6, 5, 4});
    EXPECT_TRUE(same_bytes(Table::from_array(array, options()).tensor(), array)) << dtype;
    for (const auto& strided : {array.permute({2, 0, 1}), array.slice(0, 1, 6, 2),
                                array.slice(2, 0, 1).expand({6, 5, 3}), array[2]}) {
      const auto table = Table::from_array(strided, options());
      EXPECT_TRUE(same_bytes(table.tensor(), strided)) << dtype << ' ' << strided.sizes();
    }
  }
  const auto complex = at::randn({4, 4}, at::kComplexFloat);
  EXPECT_TRUE(
      at::equal(Table::from_array(at::conj(complex), options()).tensor(), at::conj(complex).resolve_conj()));
  const auto parameter = at::randn({4, 4}).requires_grad_();
  EXPECT_FALSE(Table::from_array(parameter, options()).tensor().requires_grad());
}

TEST_P(HostTables, LiveAsLongAsTheLastCopyOrTensor) {
  std::weak_ptr<Memory> watched;
  at::Tensor rows;
  {
    auto table = std::make_unique<Table>(Table::filled({100, 4}, at::kFloat, Uniform{5, 6, 0}, options()));
    const Table copy = *table;
    watched = table->memory();
    rows = table->tensor()[3];
    table.reset();
    EXPECT_FALSE(watched.expired());
    EXPECT_EQ(copy.tensor()[3].data_ptr(), rows.data_ptr());
  }
  EXPECT_FALSE(watched.expired());
  EXPECT_GE(rows.min().item<float>(), 5.0F);
  rows.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_P(HostTables, AreGoneWhenAFillThrows) {
  const auto half_filled = [&] {
    (void)Table::filled({64 * 1024, 1024}, at::kByte, ByPieces([](at::Tensor& rows, std::int64_t first) {
                          rows.fill_(1);
                          if (first > 30'000) throw std::runtime_error("enough");
                        }),
                        options());
  };
  EXPECT_THROW(half_filled(), std::runtime_error);
  EXPECT_THROW((void)Table::filled({4}, at::kInt, Normal{}, options()), FillError);
  if (!test::memory_is_the_programs()) GTEST_SKIP() << "AddressSanitizer takes memory of its own";
  const auto before = test::mapped_bytes();
  for (int i = 0; i < 5; ++i) EXPECT_THROW(half_filled(), std::runtime_error);
  EXPECT_LT(test::mapped_bytes() - before, 16 * MiB);
}

TEST_P(HostTables, FreeAllMemoryAThousandTimes) {
  if (!test::memory_is_the_programs()) GTEST_SKIP() << "AddressSanitizer takes memory of its own";
  const auto once = [&] { (void)Table::filled({256, 256}, at::kChar, Uniform{}, options()); };
  for (int i = 0; i < 20; ++i) once();
  const auto resident = test::resident_bytes(), mapped = test::mapped_bytes(), files = test::open_files();
  for (int i = 0; i < 1000; ++i) once();
  EXPECT_LT(test::resident_bytes() - resident, 4 * MiB);  // one table in ten would be 6 MiB
  EXPECT_LT(test::mapped_bytes() - mapped, 16 * MiB);
  EXPECT_EQ(test::open_files(), files);
}

TEST_P(HostTables, CanBeMadeByEightThreadsAtOnce) {
  std::vector<at::Tensor> expected(8);
  for (std::uint64_t i = 0; i < 8; ++i) fill(expected[i] = at::empty({5000, 64}), Normal{0, 1, i});
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 5; ++round) {
        const auto table = Table::filled({5000, 64}, at::kFloat, Normal{0, 1, i}, options());
        right += same_bytes(Table::from_array(table.tensor(), options()).tensor(), expected[i]) ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 40);
}

TEST_P(HostTables, TakeNoSecondTable) {
  if (!test::memory_is_the_programs()) GTEST_SKIP() << "AddressSanitizer takes memory of its own";
  constexpr std::int64_t rows = 96 * 1024, bytes = rows * 1024;
  const auto source = at::ones({1024, rows}, at::kByte);
  const TemporaryFolder folder;
  const auto path = (folder.path() / "table.npy").string();
  (void)Table::filled({rows, 1024}, at::kByte, Zeros{}, {.placement = Placement::mapped, .file = path});
  const auto made = [&](int way) {
    return way == 0   ? Table::filled({rows, 1024}, at::kByte, Uniform{0, 200, 1}, options())
           : way == 1 ? Table::filled({rows / 4, 1024}, at::kFloat, Normal{}, options())
           : way == 2 ? Table::from_array(source.t(), options())
                      : Table::from_file(path, options());
  };
  for (int way = 0; way < 4; ++way) {
    (void)made(way);  // the first call loads pages of LibTorch's code, threads and their arenas
    test::forget_peak();
    const auto before = test::resident_bytes();
    const auto table = made(way);
    EXPECT_LT(test::peak_bytes() - before, bytes + 24 * MiB) << way;
  }
}

TEST_P(HostTables, ServeRowMovement) {
  auto table = Table::filled({1000, 16}, at::kFloat, Uniform{0, 1, 1}, options()).tensor();
  const auto index = at::randperm(1000, at::kLong).slice(0, 0, 100).contiguous();
  auto rows = at::empty({100, 16});
  gather_rows(table, index, rows);
  EXPECT_TRUE(at::equal(rows, table.index_select(0, index)));
}

INSTANTIATE_TEST_SUITE_P(All, HostTables,
                         testing::Values(Placement::libtorch, Placement::pageable, Placement::hugepage,
                                         Placement::mapped),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(Table, RefusesAnImpossibleShapeOrDtype) {
  const auto refused = [](at::IntArrayRef sizes, at::ScalarType dtype, const std::string& text) {
    EXPECT_THAT([&] { (void)Table::empty(sizes, dtype); }, ThrowsMessage<ShapeError>(HasSubstr(text)));
  };
  refused({}, at::kFloat, "no dimensions");
  refused({3, -1}, at::kFloat, "-1");
  refused({0, -1}, at::kFloat, "-1");
  refused({std::int64_t{1} << 40, std::int64_t{1} << 22}, at::kFloat, "2^63");
  refused({3}, at::kQInt8, "QInt8");
  refused({3}, at::ScalarType::Undefined, "cannot hold elements of type");
  EXPECT_THAT([] { (void)Table::from_array(at::eye(3).to_sparse()); },
              ThrowsMessage<ShapeError>(HasSubstr("sparse")));
  EXPECT_THAT([] { Table(allocate(Placement::pageable, 100), {26}, at::kFloat); },
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("104"), HasSubstr("100"))));
}

TEST(Table, IsRefusedBeforeAnythingIsTakenWhereMemoryIsShort) {
  if (!test::memory_is_the_programs()) GTEST_SKIP() << "AddressSanitizer takes memory of its own";
  for (const auto placement : {Placement::libtorch, Placement::pageable, Placement::hugepage}) {
    const auto answer = in_child([&] {
      const auto mapped = test::mapped_bytes();
      const rlimit limit{static_cast<rlim_t>(mapped + 64 * MiB), RLIM_INFINITY};
      ::setrlimit(RLIMIT_AS, &limit);
      (void)Table::empty({32, MiB}, at::kByte, {.placement = placement});
      try {
        (void)Table::empty({128, MiB}, at::kByte, {.placement = placement});
      } catch (const LimitError& error) {
        return error.limit() + " " + std::to_string(error.asked()) +
               (error.free() > 32 * MiB ? " " : " too few ") + error.what();
      }
      return std::string("not refused");
    });
    EXPECT_THAT(answer, AllOf(testing::StartsWith("RLIMIT_AS (ulimit -v) 134217728 cannot"),
                              HasSubstr(std::string(to_string(placement)) + " memory")));
  }
  EXPECT_THROW((void)Table::empty({std::int64_t{1} << 45}, at::kFloat), LimitError);
}

TEST(Table, MayOutliveMain) {
  GTEST_FLAG_SET(death_test_style,
                 "threadsafe");  // in a process that starts afresh, and so has LibTorch's threads
  EXPECT_EXIT(
      {
        static const Table table = Table::filled({1000, 10}, at::kFloat, Uniform{});
        static const at::Tensor rows = Table::filled({1000, 10}, at::kFloat, Normal{}).tensor()[5];
        std::exit(table.rows() == 1000 && rows.numel() == 10 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

/// Its pages are mapped read-only: a write would end the process.
TEST(Table, RefusesToSetAReadOnlyFile) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "t.npy").string();
  (void)Table::filled({3, 2}, at::kFloat, Uniform{1.0, 2.0, 1},
                      {.placement = Placement::mapped, .file = path});
  auto table = Table::from_file(path, {.placement = Placement::mapped});
  const auto before = table.tensor().clone();
  EXPECT_THROW(table.fill(Zeros{}), FileError);
  EXPECT_THROW(table.set(at::zeros({3, 2})), FileError);
  EXPECT_THROW(table.require_writable(), FileError);
  EXPECT_TRUE(at::equal(table.tensor(), before));
  auto writable = Table::from_file(path, {.placement = Placement::mapped}, Access::read_write);
  writable.set(at::zeros({3, 2}));
  EXPECT_EQ(table.tensor().sum().item<float>(), 0);
}

TEST(Table, InANamedFileIsWholeOrNotThere) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "rows.npy").string();
  const TableOptions options{.placement = Placement::mapped, .file = path};
  EXPECT_THROW((void)Table::filled(
                   {100, 4}, at::kFloat,
                   ByPieces([](at::Tensor&, std::int64_t) { throw std::runtime_error("no"); }), options),
               std::runtime_error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  {
    auto table = Table::filled({100, 4}, at::kFloat, Normal{0, 1, 3}, options);
    ASSERT_NE(table.file(), nullptr);
    table.tensor()[7].fill_(7);
    table.file()->flush();
  }
  const auto again = Table::from_file(path, {.placement = Placement::mapped}, Access::read_write);
  EXPECT_TRUE((again.tensor()[7] == 7).all().item<bool>());
  again.tensor()[8].fill_(8);
  EXPECT_TRUE((Table::from_file(path).tensor()[8] == 8).all().item<bool>());  // the same bytes, in huge pages
  EXPECT_THROW((void)Table::empty({1}, at::kFloat, options), FileError);      // never replaces another
  EXPECT_THROW((void)Table::from_file(path, options), ShapeError);
  EXPECT_THROW((void)Table::empty({1}, at::kFloat, {.placement = Placement::pageable, .file = path}),
               ShapeError);
  EXPECT_EQ(Table::empty({1}, at::kFloat).file(), nullptr);
}

/// Files that NumPy writes and reads.
class TablesAndNumPy : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(STBENCH_PYTHON).empty())
      GTEST_SKIP() << "STBENCH_PYTHON is not set (a Python with NumPy)";
  }
  void run(const std::string& code) const {
    const auto script = folder_.write("script.py", "import numpy as np\n" + code);
    const std::string command = "cd " + folder_.path().string() + " && " STBENCH_PYTHON " " + script;
    EXPECT_EQ(std::system(command.c_str()), 0) << code;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  TemporaryFolder folder_;
};

/// NumPy reads headers of any length, which leave the elements unaligned; only a mapping needs them aligned.
TEST_F(TablesAndNumPy, ReadUnalignedElements) {
  run("for pad in range(9):\n"
      "  head = \"{'descr': '<f8', 'fortran_order': False, 'shape': (3L, 2), }\".replace('L', '' if pad else "
      "'L') + ' ' * pad\n"
      "  head += '' if pad == 4 else '\\n'\n"
      "  file = b'\\x93NUMPY\\x01\\x00' + len(head).to_bytes(2, 'little') + head.encode() + "
      "np.arange(6.).tobytes()\n"
      "  open(f'{pad}.npy', 'wb').write(file)\n"
      "  assert (np.load(f'{pad}.npy') == np.arange(6.).reshape(3, 2)).all(), pad\n");
  const auto expected = at::arange(6, at::kDouble).view({3, 2});
  int mapped = 0;
  for (int pad = 0; pad < 9; ++pad) {
    const auto name = path(std::to_string(pad) + ".npy");
    auto table = Table::from_file(name, {.placement = Placement::pageable});
    EXPECT_TRUE(at::equal(table.tensor(), expected)) << pad;
    table.fill(Zeros{});
    table.load(name);
    EXPECT_TRUE(at::equal(table.tensor(), expected)) << pad;
    try {
      EXPECT_TRUE(at::equal(Table::from_file(name, {.placement = Placement::mapped}).tensor(), expected));
      ++mapped;
    } catch (const NpyError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("read the file into another placement"));
    }
  }
  EXPECT_LT(mapped, 9) << "none lay askew";
}

TEST_F(TablesAndNumPy, ReadEveryDtypeIntoEveryPlacement) {
  run("for d in '? u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8 c8 c16'.split():\n"
      "  np.save('t.' + d.replace('?', 'b1') + '.npy', (np.arange(60000) % (2 if d == '?' else 100))"
      ".astype(d).reshape(6000, 5, 2))\n");
  const std::vector<std::pair<std::string, at::ScalarType>> files{
      {"b1", at::kBool},         {"u1", at::kByte},          {"i1", at::kChar},  {"u2", at::kUInt16},
      {"i2", at::kShort},        {"u4", at::kUInt32},        {"i4", at::kInt},   {"u8", at::kUInt64},
      {"i8", at::kLong},         {"f2", at::kHalf},          {"f4", at::kFloat}, {"f8", at::kDouble},
      {"c8", at::kComplexFloat}, {"c16", at::kComplexDouble}};
  for (const auto& [name, dtype] : files) {
    const auto expected = (at::arange(60'000) % (dtype == at::kBool ? 2 : 100)).to(dtype).view({6000, 5, 2});
    for (const auto placement : host_placements) {
      const auto table = Table::from_file(path("t." + name + ".npy"), {.placement = placement});
      EXPECT_TRUE(same_bytes(table.tensor(), expected)) << name << ' ' << to_string(placement);
    }
  }
}

TEST_F(TablesAndNumPy, HoldNumPysOwnNumbersInAFileThatNumPyReads) {
  (void)Table::filled({50'000, 7}, at::kDouble, Uniform{-2, 5, 99},
                      {.placement = Placement::mapped, .file = path("ours.npy")});
  run("a = np.load('ours.npy')\n"
      "b = np.random.Generator(np.random.Philox(key=99)).uniform(-2, 5, (50000, 7))\n"
      "assert a.shape == b.shape and (a == b).all()\n");
}

TEST_F(TablesAndNumPy, RefuseOtherFiles) {
  run("np.save('scalar.npy', np.array(5.0)); np.save('columns.npy', np.asfortranarray(np.zeros((3, 4))));"
      "np.save('big.npy', np.zeros(3, '>f4')); np.save('cut.npy', np.zeros(1000));"
      "open('cut.npy', 'r+b').truncate(500)\n");
  EXPECT_THROW((void)Table::from_file(path("scalar.npy")), ShapeError);
  for (const char* name : {"columns.npy", "big.npy", "cut.npy", "script.py"})
    EXPECT_THROW((void)Table::from_file(path(name)), NpyError) << name;
  EXPECT_THROW((void)Table::from_file(path("none.npy")), FileError);
}

}  // namespace
}  // namespace speedtorch

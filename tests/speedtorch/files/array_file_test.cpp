#include "speedtorch/files/array_file.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <algorithm>

#include "speedtorch/error.h"
#include "speedtorch/files/file_rows.h"
#include "speedtorch/files/mapped_file.h"
#include "speedtorch/tables/table_rows.h"
#include "tests/harness/message_of.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/files/safetensors_file.h"

namespace speedtorch {
namespace {

using stbench::test::content_of;
using stbench::test::message_of;
using stbench::test::TemporaryFolder;
using test::safetensors_file;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Byte k of a file's data.
char byte(std::size_t k) { return static_cast<char>(k * 7 % 251); }

std::string data(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t k = 0; k < bytes; ++k) text[k] = byte(k);
  return text;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  std::size_t begin, std::size_t end) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[)" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

/// The tensor's bytes as a text.
std::string bytes_of(const at::Tensor& tensor) {
  const auto whole = tensor.contiguous();
  return {static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()};
}

class ArrayFiles : public testing::Test {
 protected:
  /// 300 rows of 5 numbers of type F32, behind 1,000 of U8 and before 8 of I64.
  [[nodiscard]] std::string model() const {
    const auto header = "{" + entry("first", "U8", "[1000]", 0, 1000) + "," +
                        entry("embed.weight", "F32", "[300,5]", 1000, 7000) + "," +
                        entry("last", "I64", "[8]", 7000, 7064) + "}";
    return folder_.write("model.safetensors", safetensors_file(padded(header), data(7064)));
  }
  /// With as many blanks that the data begin at a multiple of 8.
  static std::string padded(std::string header) {
    header.resize((header.size() + 7) / 8 * 8, ' ');
    return header;
  }
  template <class Error>
  [[nodiscard]] static std::string refused(const std::string& path) {
    return message_of<Error>([&] { open_array(path, Access::read_only); });
  }

  TemporaryFolder folder_;
};

TEST_F(ArrayFiles, ATensorIsMappedInPlaceAndReadByRows) {
  const auto path = model() + ":embed.weight";
  const auto expected = data(7000).substr(1000);
  const auto file = MappedFile::open(path, Access::read_only);
  EXPECT_EQ(file->name(), "model.safetensors:embed.weight");
  EXPECT_EQ(file->shape(), (at::IntArrayRef{300, 5}));
  EXPECT_EQ(file->dtype(), at::kFloat);
  EXPECT_EQ(file->array().const_data_ptr(), file->data());
  EXPECT_EQ(bytes_of(file->array()), expected);
  const auto index = at::tensor({299, 0, 7}, at::kLong);
  auto rows = at::empty({3, 5});
  gather_rows(*file, index, rows);
  EXPECT_EQ(bytes_of(rows),
            expected.substr(299 * 20, 20) + expected.substr(0, 20) + expected.substr(140, 20));
  const auto array = open_array(path, Access::read_only);
  for (const bool copy_cached : {true, false}) {
    auto read = at::empty({3, 5});
    FileRows(file_table(array), {.copy_cached = copy_cached}).gather(index, read);
    EXPECT_TRUE(at::equal(read, rows));
  }
}

TEST_F(ArrayFiles, ATensorIsATableInEachPlacement) {
  const auto path = model() + ":embed.weight";
  const auto before = content_of(folder_.path() / "model.safetensors");
  const auto expected = data(7000).substr(1000);
  for (const auto placement :
       {Placement::libtorch, Placement::pageable, Placement::hugepage, Placement::mapped}) {
    const auto table = Table::from_file(path, {.placement = placement});
    EXPECT_EQ(table.sizes(), (at::IntArrayRef{300, 5}));
    EXPECT_EQ(bytes_of(table.tensor()), expected);
  }
  const auto copy = (folder_.path() / "copy.npy").string();
  EXPECT_EQ(bytes_of(Table::copied_from_file(path, {.placement = Placement::mapped, .file = copy}).tensor()),
            expected);
  EXPECT_EQ(bytes_of(MappedFile::open(copy, Access::read_only)->array()), expected);
  auto table = Table::empty({300, 5}, at::kFloat);
  table.load(path);
  EXPECT_EQ(bytes_of(table.tensor()), expected);
  EXPECT_THAT(message_of<ShapeError>([&] { table.load(model() + ":last"); }),
              HasSubstr("'model.safetensors:last', which is "));
  EXPECT_EQ(content_of(folder_.path() / "model.safetensors"), before);
}

TEST_F(ArrayFiles, AreWrittenInPlaceOnlyIfOpenToBeWritten) {
  const auto path = model() + ":embed.weight";
  const auto before = content_of(folder_.path() / "model.safetensors");
  const auto index = at::tensor({299}, at::kLong);
  const auto reader = MappedFile::open(path, Access::read_only);
  EXPECT_THROW(scatter_rows(*reader, index, at::zeros({1, 5})), FileError);
  EXPECT_EQ(content_of(folder_.path() / "model.safetensors"), before);
  const auto writer = MappedFile::open(path, Access::read_write);
  scatter_rows(*writer, index, at::zeros({1, 5}));
  writer->flush(299, 1);
  writer->flush();
  auto expected = before;
  expected.replace(expected.size() - 64 - 20, 20, 20, '\0');
  EXPECT_EQ(content_of(folder_.path() / "model.safetensors"), expected);
}

/// A tensor far behind the file's start: only its own pages are mapped.
TEST_F(ArrayFiles, MapOnlyTheTensorsPages) {
  constexpr std::size_t before = 1 << 20, bytes = 4096;
  for (const std::size_t shift : {0U, 1000U}) {
    auto header = "{" + entry("a", "U8", "[" + std::to_string(before) + "]", 0, before) + "," +
                  entry("b", "U8", "[4096]", before, before + bytes) + "}";
    header.resize(4096 - 8 + shift, ' ');
    const auto path = folder_.write("far.safetensors", safetensors_file(header, data(before + bytes)));
    const auto file = MappedFile::open(path + ":b", Access::read_only);
    EXPECT_EQ(file->data_offset(), static_cast<std::int64_t>(4096 + shift + before));
    EXPECT_EQ(bytes_of(file->array()), data(before + bytes).substr(before));
    const auto maps = content_of("/proc/self/maps");
    std::size_t mapped = 0;
    for (auto at = maps.find("far.safetensors"); at != std::string::npos;
         at = maps.find("far.safetensors", at + 1)) {
      const auto line = maps.rfind('\n', at) + 1;
      std::size_t used = 0;
      const auto first = std::stoull(maps.substr(line), &used, 16);
      mapped += std::stoull(maps.substr(line + used + 1), nullptr, 16) - first;
    }
    EXPECT_GT(mapped, 0U);
    EXPECT_LE(mapped, 3 * std::size_t{65536}) << "of " << before << " bytes before the tensor";
  }
}

TEST_F(ArrayFiles, HaveEachDtypeThatTheFormatAndLibTorchShare) {
  const std::vector<std::pair<std::string, at::ScalarType>> dtypes{{"BOOL", at::kBool},
                                                                   {"U8", at::kByte},
                                                                   {"I8", at::kChar},
                                                                   {"F8_E5M2", at::kFloat8_e5m2},
                                                                   {"F8_E4M3", at::kFloat8_e4m3fn},
                                                                   {"F8_E4M3FNUZ", at::kFloat8_e4m3fnuz},
                                                                   {"F8_E5M2FNUZ", at::kFloat8_e5m2fnuz},
                                                                   {"F8_E8M0", at::kFloat8_e8m0fnu},
                                                                   {"I16", at::kShort},
                                                                   {"U16", at::kUInt16},
                                                                   {"F16", at::kHalf},
                                                                   {"BF16", at::kBFloat16},
                                                                   {"I32", at::kInt},
                                                                   {"U32", at::kUInt32},
                                                                   {"F32", at::kFloat},
                                                                   {"C64", at::kComplexFloat},
                                                                   {"F64", at::kDouble},
                                                                   {"I64", at::kLong},
                                                                   {"U64", at::kUInt64}};
  for (const auto& [name, dtype] : dtypes) {
    const auto bytes = 30 * c10::elementSize(dtype);
    auto content = data(bytes);
    if (dtype == at::kBool) std::ranges::fill(content, '\1');
    const auto path =
        folder_.write(name + ".safetensors",
                      safetensors_file(padded("{" + entry("t", name, "[10,3]", 0, bytes) + "}"), content));
    const auto file = MappedFile::open(path, Access::read_only);
    EXPECT_EQ(file->dtype(), dtype) << name;
    EXPECT_EQ(bytes_of(file->array()), content) << name;
    const auto table = Table::from_file(path, {.placement = Placement::pageable});
    auto rows = at::empty({2, 3}, dtype);
    gather_rows(table, at::tensor({9, 1}, at::kLong), rows);
    EXPECT_EQ(bytes_of(rows), content.substr(bytes / 10 * 9) + content.substr(bytes / 10, bytes / 10))
        << name;
  }
  for (const std::string name : {"F4", "F6_E2M3", "F6_E3M2"}) {
    const auto bytes = name == "F4" ? 4U : 6U;
    const auto path = folder_.write(
        "odd.safetensors", safetensors_file("{" + entry("t", name, "[8]", 0, bytes) + "}", data(bytes)));
    EXPECT_THAT(refused<SafetensorsError>(path),
                AllOf(StartsWith("'odd.safetensors': "), HasSubstr("elements of " + name)));
  }
}

TEST_F(ArrayFiles, APathIsAFileBeforeItIsATensor) {
  const auto header =
      padded("{" + entry("b:c/d.npy", "U8", "[4]", 0, 4) + "," + entry("", "U8", "[1]", 4, 5) + "}");
  const auto content = safetensors_file(header, data(5));
  const auto model = folder_.write("a.bin", content);  // whatever its name
  EXPECT_EQ(open_array(model + ":b:c/d.npy", Access::read_only).name, "a.bin:b:c/d.npy");
  EXPECT_EQ(open_array(model + ":", Access::read_only).bytes, 1) << "a tensor without a name";
  EXPECT_EQ(split_array_path(model).tensor, std::nullopt);
  // A file of the longer name hides the tensor.
  const auto longer = folder_.write("a.bin:b", content);
  EXPECT_EQ(split_array_path(model + ":b:c/d.npy").file, longer);
  EXPECT_EQ(split_array_path(model + ":b:c/d.npy").tensor, "c/d.npy");
  const auto whole = folder_.write("a.bin:b:c/d.npy", "");
  EXPECT_EQ(split_array_path(whole).file, whole);
  const auto npy = (folder_.path() / "colon:in:name.npy").string();
  MappedFile::create(npy, {3, 2}, at::kFloat);
  EXPECT_EQ(open_array(npy, Access::read_only).name, "colon:in:name.npy");
}

TEST_F(ArrayFiles, RefusalsNameFileAndTensor) {
  const auto path = model();
  EXPECT_EQ(refused<SafetensorsError>(path),
            "'model.safetensors': the safetensors file has 3 tensors; name one as FILE:NAME: it has "
            "'embed.weight', "
            "'first', 'last'");
  EXPECT_EQ(refused<SafetensorsError>(path + ":embed"),
            "'model.safetensors:embed': the safetensors file has no tensor 'embed'; it has 'embed.weight', "
            "'first', 'last'");
  const auto npy = (folder_.path() / "a.npy").string();
  MappedFile::create(npy, {3, 2}, at::kFloat);
  EXPECT_EQ(refused<NpyError>(npy + ":b"), "'a.npy:b': a .npy file holds one array and no tensor 'b'");
  const auto missing = (folder_.path() / "missing.safetensors:a/b").string();
  EXPECT_THAT(refused<FileError>(missing),
              AllOf(StartsWith("'missing.safetensors' cannot be opened"), HasSubstr("No such file")));
  EXPECT_THAT(refused<NpyError>(folder_.write("text", "no array at all")),
              HasSubstr("does not begin as a .npy file does"));
  EXPECT_THAT(refused<SafetensorsError>(folder_.write("cut.safetensors", "abc")),
              HasSubstr("has only 3 bytes"));
  EXPECT_THAT(refused<FileError>(folder_.path().string() + ":a"), HasSubstr("cannot be opened"));
  const auto scalar =
      open_array(folder_.write("s", safetensors_file(padded("{" + entry("t", "U8", "[]", 0, 1) + "}"), "x")),
                 Access::read_only);
  EXPECT_THAT(message_of<ShapeError>([&] { file_table(scalar); }), HasSubstr("'s' holds a scalar"));
}

TEST_F(ArrayFiles, UnalignedElementsAreReadButNotMapped) {
  auto header = "{" + entry("t", "F32", "[2,1]", 0, 8) + "}";
  header.resize((header.size() + 7) / 8 * 8 + 2, ' ');
  const auto path = folder_.write("askew.safetensors", safetensors_file(header, data(8)));
  EXPECT_EQ(bytes_of(Table::from_file(path, {.placement = Placement::libtorch}).tensor()), data(8));
  EXPECT_THAT(message_of<SafetensorsError>([&] { MappedFile::open(path, Access::read_only); }),
              AllOf(StartsWith("'askew.safetensors': the elements begin at byte "),
                    HasSubstr("not a multiple of 4")));
  // A complex number is aligned as its parts are.
  ArrayFile array{"x.npy", {}, ArrayFormat::npy, at::kComplexDouble, {1}, 120, 16};
  EXPECT_NO_THROW(require_aligned(array));  // as of NumPy before 1.14
  array.data_offset = 126;
  EXPECT_THAT(message_of<NpyError>([&] { require_aligned(array); }),
              AllOf(HasSubstr("126"), HasSubstr("multiple of 8")));
}

TEST_F(ArrayFiles, EmptyTensorsAreMappedToo) {
  for (const std::size_t header_bytes : {4096U - 8U, 4096U}) {
    auto header = "{" + entry("t", "F32", "[0,128]", 0, 0) + "}";
    header.resize(header_bytes, ' ');
    const auto path = folder_.write("empty.safetensors", safetensors_file(header));
    EXPECT_EQ(MappedFile::open(path, Access::read_only)->array().sizes(), (at::IntArrayRef{0, 128}));
  }
}

TEST_F(ArrayFiles, AHeaderLongerThanTheFirstReadIsReadWhole) {
  auto header = "{" + entry("t", "U8", "[4]", 0, 4) + "}";
  header.resize(300'000, ' ');
  const auto path = folder_.write("long.safetensors", safetensors_file(header, data(4)));
  EXPECT_EQ(bytes_of(MappedFile::open(path + ":t", Access::read_only)->array()), data(4));
}

}  // namespace
}  // namespace speedtorch

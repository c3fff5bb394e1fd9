#include "speedtorch/files/npy.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "tests/harness/message_of.h"
#include "tests/harness/temporary_folder.h"

namespace speedtorch {
namespace {

using stbench::test::message_of;
using stbench::test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using Shape = std::vector<std::int64_t>;

/// A file of that version with exactly that header and those elements.
std::string file_of(const std::string& header, const std::string& data = "", int major = 1) {
  std::string file("\x93NUMPY");
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return file + header + data;
}

std::string header_of(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string refused_header(const std::string& file) {
  return message_of<NpyError>([&] { parse_npy_header(bytes(file)); });
}

std::string refused_integers(const std::string& file) {
  return message_of<NpyError>([&] { npy_integers(bytes(file)); });
}

TEST(NpyHeader, IsReadInEachVersion) {
  for (const int major : {1, 2, 3}) {
    const std::string file = file_of(header_of("<f4", "(3, 5)"), "data", major);
    const NpyHeader header = parse_npy_header(bytes(file));
    EXPECT_EQ(header.descr, "<f4");
    EXPECT_FALSE(header.fortran);
    EXPECT_EQ(header.shape, (Shape{3, 5}));
    EXPECT_EQ(header.elements(), 15);
    EXPECT_EQ(header.data_offset, static_cast<std::int64_t>(file.size()) - 4);
  }
}

TEST(NpyHeader, MayBeInAnyOrderAndSpacing) {
  const NpyHeader header =
      parse_npy_header(bytes(file_of("{ \"shape\" :( ) ,'fortran_order':True,\"descr\":\"|u1\"}   \n")));
  EXPECT_TRUE(header.fortran);
  EXPECT_EQ(header.shape, Shape{});
  EXPECT_EQ(header.elements(), 1);
  EXPECT_EQ(header.descr, "|u1");
}

TEST(NpyHeader, CountsElementsWithoutOverflow) {
  const auto elements = [](const std::string& shape) {
    return parse_npy_header(bytes(file_of(header_of("|u1", shape)))).elements();
  };
  EXPECT_EQ(elements("(9223372036854775807,)"), 9223372036854775807);
  EXPECT_EQ(elements("(4294967296, 4294967296, 0)"), 0);
  EXPECT_THAT(message_of<NpyError>([&] { elements("(4294967296, 4294967296)"); }),
              HasSubstr("more than 2^63 - 1"));
}

class BadHeader : public testing::TestWithParam<std::string> {};

TEST_P(BadHeader, IsRefused) {
  EXPECT_THAT(refused_header(file_of(GetParam())), HasSubstr("the .npy header"));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadHeader,
    testing::Values("", "{", "{}", "[]", "{'descr': '<i8'}", header_of("<i8", "3"), header_of("<i8", "(3)"),
                    header_of("<i8", "(3"), header_of("<i8", "(,)"), header_of("<i8", "(3,,)"),
                    header_of("<i8", "(3 4)"), header_of("<i8", "(-1,)"), header_of("<i8", "(3.0,)"),
                    header_of("<i8", "(3LL,)"), header_of("<i8", "(9223372036854775808,)"),
                    header_of("<i8", "[3]"), header_of("<i8", "None"), header_of("<i8", "(3,)") + "x",
                    header_of("<i8\\'", "(3,)"), header_of(std::string(65, 'a'), "(3,)"),
                    header_of("<i8\n", "(3,)"),
                    "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (3,)}",
                    "{'descr': '<i8', 'descr': '<i8', 'fortran_order': False, 'shape': (3,)}",
                    "{'descr': '<i8', 'fortran_order': 0, 'shape': (3,)}",
                    "{'descr': '<i8', 'fortran_order': False 'shape': (3,)}",
                    "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), 'more': 1}",
                    "{'descr' '<i8', 'fortran_order': False, 'shape': (3,)}", "{,}"));

TEST(NpyHeader, RefusesTooManyDimensions) {
  std::string shape = "(";
  for (int i = 0; i < 65; ++i) shape += "1,";
  EXPECT_THAT(refused_header(file_of(header_of("<i8", shape + ")"))), HasSubstr("64 dimensions"));
}

TEST(NpyHeader, RefusesDeepNesting) {
  for (const char* open : {"(", "[", "{"}) {
    std::string deep;
    for (int i = 0; i < 20'000; ++i) deep += open;
    EXPECT_THAT(refused_header(file_of(deep)), HasSubstr("the .npy header"));
    EXPECT_THAT(refused_header(file_of("{'shape': " + deep)), HasSubstr("the .npy header"));
  }
}

TEST(NpyHeader, IsBounded) {
  std::string file = file_of("", "", 2);
  file.replace(8, 4, "\xFF\xFF\xFF\x7F");
  EXPECT_THAT(refused_header(file), HasSubstr("64 KiB"));
}

TEST(NpyHeader, RefusesACutFile) {
  for (const int major : {1, 2}) {
    const std::string file = file_of(header_of("<i8", "(3,)"), "", major);
    for (std::size_t length = 0; length < file.size(); ++length) {
      EXPECT_THAT(refused_header(file.substr(0, length)), HasSubstr("the")) << length;
    }
  }
}

TEST(NpyHeader, RefusesOtherFormats) {
  EXPECT_THAT(refused_header("not numpy at all"), HasSubstr("does not begin"));
  EXPECT_THAT(refused_header(file_of(header_of("<i8", "(3,)"), "", 4)), HasSubstr("version 4.0"));
  EXPECT_FALSE(is_npy(bytes("\x93NUMP")));
}

TEST(NpyIntegers, AreWidened) {
  EXPECT_THAT(npy_integers(bytes(file_of(header_of("|i1", "(2,)"), "\x7F\xFF"))), ElementsAre(127, -1));
  EXPECT_THAT(npy_integers(bytes(file_of(header_of("|u1", "(2,)"), "\x7F\xFF"))), ElementsAre(127, 255));
  EXPECT_THAT(npy_integers(bytes(file_of(header_of("<i2", "(1,)"), "\xFE\xFF"))), ElementsAre(-2));
  EXPECT_THAT(npy_integers(bytes(file_of(header_of("<u4", "(1,)"), "\xFE\xFF\xFF\xFF"))),
              ElementsAre(4294967294));
  EXPECT_THAT(npy_integers(bytes(file_of(header_of("<i8", "(0,)")))), ElementsAre());
}

TEST(NpyIntegers, RefuseOtherKindsOfArrays) {
  for (const char* descr : {"<f4", "<f8", ">i8", "<u8", "|b1", "<c8", "<U4", "|S8", "|V8", "|O"}) {
    EXPECT_THAT(refused_integers(file_of(header_of(descr, "(1,)"), "12345678")), HasSubstr(descr));
  }
  EXPECT_THAT(refused_integers(file_of(header_of("|i1", "()"), "1")), HasSubstr("0 dimensions"));
  EXPECT_THAT(refused_integers(file_of(header_of("|i1", "(1, 1)"), "1")), HasSubstr("2 dimensions"));
}

TEST(NpyIntegers, MustBeAllThereAndNoMore) {
  for (const char* data : {"", "1234567", "123456789"}) {
    EXPECT_THAT(refused_integers(file_of(header_of("<i4", "(2,)"), data)),
                HasSubstr("promises 2 elements of 4 bytes"));
  }
  EXPECT_THAT(refused_integers(file_of(header_of("<i8", "(2305843009213693952,)"), "")),
              HasSubstr("promises"));
}

/// Its header, longer by a byte, takes the first byte of the data, so that the lengths match again.
TEST(NpyIntegers, RefuseAFileCopiedAsTextToTheRightLength) {
  const std::string whole = file_of(header_of("<i4", "(2,)"), "\x01\x02\x03\x04\r\n\x05\x06");
  std::string copied = whole;
  copied.insert(copied.find('\n'), 1, '\r');
  copied.erase(copied.find("\r\n\x05"), 1);
  ASSERT_EQ(copied.size(), whole.size());
  EXPECT_THAT(npy_integers(bytes(whole)), ElementsAre(0x04030201, 0x06050A0D));
  EXPECT_THAT(refused_integers(copied), HasSubstr("copied as text"));
}

TEST(Npy, ThrowsNothingButNpyErrorOnDamage) {
  std::mt19937_64 engine(3);
  const std::string whole = file_of(header_of("<i4", "(2,)"), "12345678");
  int refused = 0;
  for (int i = 0; i < 30'000; ++i) {
    std::string file = whole;
    for (auto left = 1 + engine() % 3; left > 0; --left)
      file[engine() % file.size()] = static_cast<char>(engine());
    try {
      npy_integers(bytes(file));
    } catch (const NpyError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 15'000);
}

std::vector<std::int64_t> integers_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  return npy_integers(bytes(content));
}

/// Files that NumPy wrote.
class FromNumPy : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(STBENCH_PYTHON).empty())
      GTEST_SKIP() << "STBENCH_PYTHON is not set (a Python with NumPy)";
  }

  /// The path of a file with the array of this Python expression.
  [[nodiscard]] std::string saved(const std::string& array, const std::string& version = "None") const {
    const std::string path = (folder_.path() / "a.npy").string();
    const std::string command = std::string(STBENCH_PYTHON) + " -c \"import numpy as np; f = open('" + path +
                                "', 'wb'); np.lib.format.write_array(f, " + array + ", version=" + version +
                                ")\"";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return path;
  }

  TemporaryFolder folder_;
};

TEST_F(FromNumPy, IntegersOfEachKindAreRead) {
  for (const char* dtype : {"int8", "int16", "int32", "int64"}) {
    EXPECT_THAT(integers_in(saved(std::string("np.array([3, -1, 100], dtype=np.") + dtype + ")")),
                ElementsAre(3, -1, 100))
        << dtype;
  }
  for (const char* dtype : {"uint8", "uint16", "uint32"}) {
    EXPECT_THAT(integers_in(saved(std::string("np.array([3, 0, 200], dtype=np.") + dtype + ")")),
                ElementsAre(3, 0, 200))
        << dtype;
  }
}

TEST_F(FromNumPy, VersionsOfTheFormatAreRead) {
  for (const char* version : {"(1, 0)", "(2, 0)", "(3, 0)"}) {
    EXPECT_EQ(integers_in(saved("np.arange(1000) ** 2", version)).at(999), 998'001) << version;
  }
}

TEST_F(FromNumPy, ShapesAndOrderAreRead) {
  std::ifstream file(saved("np.asfortranarray(np.zeros((2, 3, 4), np.float32))"), std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  const NpyHeader header = parse_npy_header(bytes(content));
  EXPECT_EQ(header.descr, "<f4");
  EXPECT_TRUE(header.fortran);
  EXPECT_EQ(header.shape, (Shape{2, 3, 4}));
  EXPECT_EQ(static_cast<std::int64_t>(content.size()) - header.data_offset, 2 * 3 * 4 * 4);
}

TEST_F(FromNumPy, OtherArraysAreRefused) {
  for (const char* array :
       {"np.zeros(3)", "np.zeros((2, 2), np.int64)", "np.array(5)", "np.arange(3, dtype='>i8')",
        "np.zeros(2, dtype=[('a', 'i4')])", "np.arange(3, dtype=np.uint64)"}) {
    const std::string path = saved(array);
    EXPECT_THAT(message_of<NpyError>([&] { integers_in(path); }), HasSubstr("the .npy")) << array;
  }
}

}  // namespace
}  // namespace speedtorch

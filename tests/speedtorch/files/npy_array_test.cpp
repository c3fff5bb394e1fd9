#include "speedtorch/files/npy_array.h"

#include <gmock/gmock.h>

#include "tests/harness/message_of.h"

namespace speedtorch {
namespace {

using stbench::test::message_of;
using testing::AllOf;
using testing::HasSubstr;
using Shape = std::vector<std::int64_t>;

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

/// A file of format 1.0 with that dictionary, whose elements start at byte `offset`.
std::string file_of(const std::string& descr, const std::string& shape, std::size_t offset = 128,
                    const std::string& order = "False") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.resize(offset - 11, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += {static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  return file + header;
}

std::string refused(const std::string& header, std::int64_t file_bytes) {
  return message_of<NpyError>([&] { npy_array(bytes(header), file_bytes); });
}

class EveryElement : public testing::TestWithParam<int> {};

TEST_P(EveryElement, IsWrittenAndReadAgain) {
  const auto element = static_cast<NpyElement>(GetParam());
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{7}, Shape{3, 0, 5}, Shape{3, 128}, Shape(64, 1)}) {
    const std::string header = npy_header(element, shape);
    ASSERT_EQ(header.size(), 4096U);
    EXPECT_EQ(header.back(), '\n');
    const auto array = npy_array(bytes(header), 4096 + npy_bytes(element, shape));
    EXPECT_EQ(array.element, element);
    EXPECT_EQ(array.shape, shape);
    EXPECT_EQ(array.data_offset, 4096);
    EXPECT_EQ(array.bytes, npy_bytes(element, shape));

    const std::string numpys = numpys_header(element, shape);
    EXPECT_EQ(numpys.size() % 64, 0U);
    const auto again = npy_array(bytes(numpys), static_cast<std::int64_t>(numpys.size()) + array.bytes);
    EXPECT_EQ(again.element, element);
    EXPECT_EQ(again.shape, shape);
  }
}

TEST(NpyArray, HeaderEqualsNumPys) {
  // np.save() of np.zeros((3, 4), 'f4'), NumPy 2.4
  std::string header("\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
                     69);
  header.resize(127, ' ');
  EXPECT_EQ(numpys_header(NpyElement::float32, Shape{3, 4}), header + '\n');
}

INSTANTIATE_TEST_SUITE_P(All, EveryElement, testing::Range(0, static_cast<int>(NpyElement::bfloat16) + 1));

TEST(NpyArray, HasSpaceForTheLongestShapeAndNoMore) {
  EXPECT_EQ(npy_header(NpyElement::int8, Shape(64, 1)).size(), 4096U);
  Shape longest(64, std::numeric_limits<std::int64_t>::max());
  longest.back() = 0;  // otherwise there are too many elements
  const auto header = npy_header(NpyElement::complex128, longest);
  EXPECT_EQ(header.size(), 4096U);
  EXPECT_EQ(npy_array(bytes(header), 4096).shape, longest);
}

TEST(NpyArray, MustFillItsFileExactly) {
  const auto file = file_of("<f4", "(3, 5)");
  EXPECT_EQ(npy_array(bytes(file), 128 + 60).bytes, 60);
  EXPECT_THAT(refused(file, 128 + 59), AllOf(HasSubstr("cut off"), HasSubstr("60"), HasSubstr("59")));
  EXPECT_THAT(refused(file, 128), HasSubstr("cut off"));
  EXPECT_THAT(refused(file, 128 + 61), AllOf(HasSubstr("longer than its header says"), HasSubstr("61")));
}

TEST(NpyArray, RefusesMoreBytesThanAFileCanHave) {
  EXPECT_THAT(refused(file_of("<f4", "(4611686018427387904,)"), 128), HasSubstr("2^63 - 1"));
  EXPECT_THAT(refused(file_of("|u1", "(9223372036854775807,)"), 128), HasSubstr("2^63 - 1 bytes"));
  EXPECT_THAT(refused(file_of("|u1", "(9223372036854775807, 2)"), 128), HasSubstr("2^63 - 1 elements"));
  EXPECT_EQ(npy_array(bytes(file_of("<f4", "(9223372036854775807, 9, 0)")), 128).bytes, 0);
}

TEST(NpyArray, RefusesOtherKindsWithTheCure) {
  EXPECT_THAT(refused(file_of(">f4", "(1,)"), 132),
              AllOf(HasSubstr("big-endian"), HasSubstr("astype('<f4')")));
  EXPECT_THAT(refused(file_of("|O", "(1,)"), 132), HasSubstr("Python objects"));
  EXPECT_THAT(refused(file_of("<f4", "(2, 2)", 128, "True"), 144),
              AllOf(HasSubstr("Fortran order"), HasSubstr("ascontiguousarray")));
  for (const char* descr : {"<U4", "|S8", "|V2", "<V4", "<f16", "<c4", "<M8[s]", "<i3", "f4", ""})
    EXPECT_THAT(refused(file_of(descr, "(1,)"), 132), HasSubstr("'" + std::string(descr) + "'"));
}

TEST(NpyArray, RefusesAFileThatWasCopiedAsText) {
  auto mangled = file_of("<i4", "(2,)", 128);
  ASSERT_EQ(mangled.back(), '\n');
  mangled.insert(mangled.size() - 1, 1, '\r');
  mangled += std::string("\x01\x00\x00\x00\x02\x00\x00", 7);  // and cut to its old length
  EXPECT_THAT(refused(mangled, 136), AllOf(HasSubstr("carriage return"), HasSubstr("copy it as binary")));
}

TEST(NpyHeaderText, RefusesWhatNoFileCanHold) {
  EXPECT_THAT(message_of<NpyError>([] { npy_header(NpyElement::int8, Shape{-1}); }), HasSubstr("(-1,)"));
  EXPECT_THAT(message_of<NpyError>([] { npy_header(NpyElement::int8, Shape(65, 1)); }), HasSubstr("65"));
  EXPECT_THAT(message_of<NpyError>([] {
                npy_header(NpyElement::int64, Shape{1LL << 60, 2});
              }),
              HasSubstr("(1152921504606846976, 2)"));
}

}  // namespace
}  // namespace speedtorch

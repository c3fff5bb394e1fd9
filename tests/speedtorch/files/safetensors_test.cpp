#include "speedtorch/files/safetensors.h"

#include <gmock/gmock.h>

#include "tests/harness/message_of.h"
#include "tests/speedtorch/files/safetensors_file.h"

namespace speedtorch {
namespace {

using stbench::test::message_of;
using test::safetensors_file;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

Safetensors read(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), std::ssize(file));
}

std::string refused(const std::string& header, std::size_t data = 4) {
  return message_of<SafetensorsError>([&] { read(safetensors_file(header, std::string(data, 'x'))); });
}

/// The header of one tensor 'a', which stands at byte 9 of the file.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(Safetensors, NameTypeShapeAndPlaceOfEachTensor) {
  const auto header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F8_E4M3","shape":[4,1],"data_offsets":[0,4]}}  )";
  const auto file = safetensors_file(header, std::string(16, 'x'));
  const auto found = read(file);
  const auto data = std::ssize(file) - 16;
  ASSERT_EQ(found.tensors.size(), 2U);
  const auto& a = tensor_named(found, "a");
  EXPECT_EQ(a.dtype, "F8_E4M3");
  EXPECT_THAT(a.shape, ElementsAre(4, 1));
  EXPECT_EQ(a.offset, data);
  EXPECT_EQ(a.bytes, 4);
  const auto& b = tensor_named(found, "b");
  EXPECT_EQ(b.dtype, "BF16");
  EXPECT_EQ(b.offset, data + 4);
  EXPECT_EQ(b.bytes, 12);
  EXPECT_THAT(found.metadata, ElementsAre(Pair("format", "pt")));
}

/// These bytes are those of the format's own tests.
TEST(Safetensors, AreReadAsInTheFormatsOwnTests) {
  const std::string zeros(16, '\0');
  const std::string test = R"({"test":{"dtype":"I32","shape":)";
  const auto whole = read(safetensors_file(test + R"([2,2],"data_offsets":[0,16]}})", zeros));
  EXPECT_THAT(tensor_named(whole, "test").shape, ElementsAre(2, 2));
  EXPECT_EQ(tensor_named(whole, "test").offset, 68);
  const auto scalar = read(safetensors_file(test + R"([],"data_offsets":[0,4]}})", zeros.substr(0, 4)));
  EXPECT_THAT(tensor_named(scalar, "test").shape, IsEmpty());
  EXPECT_EQ(tensor_named(scalar, "test").bytes, 4);
  const auto empty = read(safetensors_file(test + R"([2,0],"data_offsets":[0, 0]}})"));
  EXPECT_EQ(tensor_named(empty, "test").bytes, 0);
  EXPECT_THAT(read(safetensors_file("{}\r \t\n")).tensors, IsEmpty());
  EXPECT_THAT(refused(test + R"([2,2],"data_offsets":[0,16]}})", 50), HasSubstr("34 bytes behind its last"));
  EXPECT_THAT(refused(test + R"([2,2],"data_offsets":[0,16]}})", 14),
              HasSubstr("behind the header are 14 bytes"));
  EXPECT_THAT(refused(test + R"([2,2],"data_offsets":[0,4]}})"),
              HasSubstr("4 bytes; its dtype and shape need 16"));
  EXPECT_THAT(refused(test + R"([2,18446744073709551614],"data_offsets":[0,16]}})", 16),
              HasSubstr("2^64 - 1 bits"));
  EXPECT_THAT(refused(test + R"([2,9223372036854775807],"data_offsets":[0,16]}})", 16),
              HasSubstr("2^64 - 1 bits"));
}

TEST(Safetensors, RefuseALengthThatCannotBe) {
  const auto message = [](const std::string& file) {
    return message_of<SafetensorsError>([&] { read(file); });
  };
  EXPECT_EQ(message(""), "the safetensors file has only 0 bytes; the length of its header alone takes 8");
  EXPECT_EQ(message(std::string(8, '\0')), "the safetensors file has an empty header; '{}' is the shortest");
  auto file = safetensors_file("{}");
  file[0] = 3;
  EXPECT_EQ(message(file), "the safetensors file promises a header of 3 bytes; behind its length are 2");
  file[7] = '\xff';
  EXPECT_EQ(
      message(file),
      "the safetensors file promises a header of 18374686479671623683 bytes; the format allows 100000000");
  const std::string beginning = safetensors_file("{");
  const auto bytes = std::as_bytes(std::span(beginning));
  EXPECT_EQ(safetensors_header_bytes(bytes, 9), 9) << "the header itself need not be there";
}

TEST(Safetensors, RefusalsNameByteTensorValueAndWhatWouldBeRight) {
  EXPECT_EQ(refused(" " + one("U8", "[4]", "[0,4]")),
            "the safetensors header begins with the byte 0x20 (byte 8); '{' is needed");
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","shape":[4}})"),
            "the safetensors header is no JSON from byte 37 of the file on");
  EXPECT_EQ(refused(one("U8", "[4]", "[0,4]") + '\0'),
            "the safetensors header is no JSON: byte 61 of the file is zero");
  EXPECT_EQ(refused(one("F33", "[4]", "[0,4]")),
            "the safetensors header gives the tensor 'a' (byte 9) the unknown dtype 'F33'; known are BOOL, "
            "F4, F6_E2M3, "
            "F6_E3M2, U8, I8, F8_E5M2, F8_E4M3, F8_E4M3FNUZ, F8_E5M2FNUZ, F8_E8M0, I16, U16, F16, BF16, I32, "
            "U32, F32, "
            "C64, F64, I64, U64");
  EXPECT_EQ(refused(one("U8", "[-4]", "[0,4]")),
            "the safetensors header has -4 as 'shape' (byte 27) of 'a'; an array of whole numbers from 0 on "
            "is needed");
  EXPECT_EQ(refused(one("U8", "4", "[0,4]")),
            "the safetensors header has 4 as 'shape' (byte 27) of 'a'; an array of whole numbers from 0 on "
            "is needed");
  EXPECT_EQ(refused(R"({"a":{"dtype":8,"shape":[4],"data_offsets":[0,4]}})"),
            "the safetensors header has 8 as 'dtype' (byte 14) of 'a'; a text is needed");
  EXPECT_EQ(refused(R"({"__metadata__":{"a":1}})", 0),
            "the safetensors header has 1 as 'a' (byte 25) of '__metadata__'; a text is needed");
  EXPECT_EQ(refused(R"({"a":null})", 0),
            "the safetensors header has null as 'a' (byte 9); an object is needed");
  EXPECT_EQ(refused(R"({"a":{"dtype":"U8","data_offsets":[0,4]}})"),
            "the safetensors header lacks 'shape' of the tensor 'a' (byte 9); dtype, shape and data_offsets "
            "are needed");
  EXPECT_EQ(refused(one("U8", "[4]", "[4]")),
            "the safetensors header gives the tensor 'a' (byte 9) 1 data_offsets; 2 are needed");
  EXPECT_EQ(refused(one("U8", "[4]", "[0,4,4]")),
            "the safetensors header has more than 2 numbers as 'data_offsets' (byte 39) of 'a'");
  EXPECT_EQ(refused(one("U8", "[0,9223372036854775808]", "[0,0]"), 0),
            "the safetensors header gives the tensor 'a' (byte 9) an extent of 9223372036854775808; at most "
            "2^63 - 1 is "
            "allowed");
  EXPECT_EQ(refused(one("F4", "[3]", "[0,2]"), 2),
            "the safetensors header gives the tensor 'a' (byte 9) 12 bits of F4; whole bytes are needed");
}

TEST(Safetensors, RefuseEqualKeysWhereverTheyStand) {
  const auto entry = std::string(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})");
  EXPECT_EQ(refused(R"({"a":)" + entry + R"(,"\u0061":)" + entry + "}"),
            "the safetensors header has the key 'a' (byte 61) a second time; each may stand once");
  EXPECT_THAT(refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})"),
              HasSubstr("the key 'dtype' (byte 27) of 'a' a second time"));
  EXPECT_THAT(refused(R"({"__metadata__":{"b":"","b":""}})", 0),
              HasSubstr("'b' (byte 32) of '__metadata__'"));
}

TEST(Safetensors, RefuseHolesAndOverlaps) {
  const auto two = [](const std::string& begin, const std::string& end) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[)" +
           begin + "," + end + "]}}";
  };
  EXPECT_EQ(refused(two("5", "9"), 9),
            "the safetensors header places the tensor 'b' (byte 61) at the data_offset 5, which leaves a "
            "hole; 4 is next");
  EXPECT_EQ(refused(two("3", "7"), 7),
            "the safetensors header places the tensor 'b' (byte 61) at the data_offset 3, which overlaps the "
            "tensor before "
            "it; 4 is next");
  EXPECT_THAT(refused(one("U8", "[4]", "[1,5]"), 5),
              HasSubstr("at the data_offset 1, which leaves a hole; 0 is next"));
  EXPECT_THAT(refused("{}", 3),
              AllOf(HasSubstr("3 bytes behind its last tensor"), HasSubstr("from byte 10 on")));
}

TEST(Safetensors, RefuseMoreThanTheirLimits) {
  std::string extents = "[1";
  for (int k = 1; k < 64; ++k) extents += ",1";
  EXPECT_EQ(read(safetensors_file(one("U8", extents + "]", "[0,1]"), "x")).tensors.at("a").shape.size(), 64U);
  EXPECT_EQ(refused(one("U8", extents + ",1]", "[0,1]"), 1),
            "the safetensors header has more than 64 numbers as 'shape' (byte 27) of 'a'");
  std::string header = "{";
  for (std::size_t k = 0; k <= kMostSafetensorsTensors; ++k)
    header += (k == 0 ? "\"" : ",\"") + std::to_string(k) + "\":{}";
  EXPECT_THAT(refused(header + "}", 0), HasSubstr("more than 1000000 tensors: '1000000'"));
}

TEST(Safetensors, SayWhichTensorsThereAre) {
  const auto missing = [](const Safetensors& file, const std::optional<std::string>& name) {
    return message_of<SafetensorsError>([&] { tensor_named(file, name); });
  };
  Safetensors file;
  EXPECT_EQ(missing(file, "a"), "the safetensors file has no tensor 'a'; it has no tensors");
  file.tensors["only"].bytes = 7;
  EXPECT_EQ(tensor_named(file, std::nullopt).bytes, 7);
  EXPECT_EQ(missing(file, "a"), "the safetensors file has no tensor 'a'; it has 'only'");
  for (int k = 0; k < 11; ++k) file.tensors["t" + std::to_string(k)];
  EXPECT_THAT(missing(file, std::nullopt),
              AllOf(HasSubstr("has 12 tensors; name one as FILE:NAME: it has 'only', 't0', 't1'"),
                    HasSubstr("'t6', 't7' and 2 more")));
  const auto message = missing(file, std::string(79, 'x') + "é");  // 80 bytes would cut the letter
  EXPECT_THAT(message, HasSubstr(std::string(79, 'x') + "…'"));
}

}  // namespace
}  // namespace speedtorch

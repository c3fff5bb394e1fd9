#include "speedtorch/system/parallel_read.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/system/mapping.h"
#include "tests/harness/temporary_folder.h"

namespace speedtorch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string random_text(std::size_t bytes) {
  std::mt19937_64 engine(5);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(engine());
  return text;
}

TEST(ReadInParallel, GivesTheBytesOfTheFileFromTheOffset) {
  const stbench::test::TemporaryFolder folder;
  const auto text = random_text((17 << 20) + 3);  // three pieces, the last short
  const Descriptor file(::open(folder.write("data", text).c_str(), O_RDONLY));
  for (const std::size_t offset : {std::size_t{0}, std::size_t{129}, text.size() - 1, text.size()}) {
    std::string read(text.size() - offset + 2, '?');
    read_in_parallel(file.get(), static_cast<std::int64_t>(offset),
                     reinterpret_cast<std::byte*>(read.data() + 1),
                     static_cast<std::int64_t>(text.size() - offset), "data");
    EXPECT_TRUE(read == "?" + text.substr(offset) + "?") << offset;
  }
}

TEST(ReadInParallel, NamesAFileThatEndsTooEarly) {
  const stbench::test::TemporaryFolder folder;
  const Descriptor file(::open(folder.write("data", std::string(1000, 'x')).c_str(), O_RDONLY));
  std::vector<std::byte> space(2000);
  EXPECT_THAT([&] { read_in_parallel(file.get(), 10, space.data(), 1000, "data.npy"); },
              ThrowsMessage<FileError>(AllOf(HasSubstr("'data.npy'"), HasSubstr("ends at byte 1000"))));
}

TEST(ReadInParallel, SaysWhyAFileCannotBeRead) {
  const Descriptor folder(::open("/", O_RDONLY | O_DIRECTORY));
  std::vector<std::byte> space(10);
  EXPECT_THAT([&] { read_in_parallel(folder.get(), 0, space.data(), 10, "data.npy"); },
              ThrowsMessage<FileError>(HasSubstr("'data.npy' cannot be read: Is a directory")));
}

}  // namespace
}  // namespace speedtorch

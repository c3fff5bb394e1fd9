#include "speedtorch/system/small_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "speedtorch/error.h"
#include "tests/harness/message_of.h"
#include "tests/harness/temporary_folder.h"

namespace speedtorch {
namespace {

using stbench::test::message_of;
using stbench::test::TemporaryFolder;

std::string refusal(const std::string& path) {
  return message_of<FileError>([&] { read_small_file(path, 100); });
}

TEST(SmallFiles, AreReadWhole) {
  const TemporaryFolder folder;
  const std::string bytes("a\0b\r\n\xff", 6);
  EXPECT_EQ(read_small_file(folder.write("bytes", bytes), 100), bytes);
  EXPECT_EQ(read_small_file(folder.write("none", ""), 100), "");
  EXPECT_EQ(read_small_file(folder.write("full", std::string(100, 'x')), 100), std::string(100, 'x'));
  EXPECT_FALSE(read_small_file("/proc/sys/kernel/ostype", 100).empty())
      << "the system says that it has 0 bytes";
}

TEST(SmallFiles, OfOtherKindsAreRefusedAtOnce) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder.path() / "absent"), "'absent' cannot be read: No such file or directory");
  EXPECT_EQ(refusal(folder.write("large", std::string(101, 'x'))),
            "'large' has 101 bytes; at most 100 would be right");
  EXPECT_EQ(refusal("/dev/zero"), "'zero' is not a regular file and cannot be read");
  EXPECT_EQ(refusal(folder.path()),
            "'" + folder.path().filename().string() + "' is not a regular file and cannot be read");
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(folder.path() / "pipe"), "'pipe' is not a regular file and cannot be read");
}

}  // namespace
}  // namespace speedtorch

#include "speedtorch/system/new_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "speedtorch/error.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/refusal.h"

namespace speedtorch {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(NewFolder, AppearsOnceItIsWhole) {
  const stbench::test::TemporaryFolder folder;
  const auto path = folder.path() / "made";
  NewFolder made(path.string() + "//");  // slashes at the end do not matter
  std::ofstream(made.path() + "/file") << "content";
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(fs::path(made.path()).parent_path(), folder.path());
  made.publish();
  EXPECT_TRUE(fs::exists(path / "file"));
}

TEST(NewFolder, LeavesNothingIfUnpublished) {
  const stbench::test::TemporaryFolder folder;
  try {
    const NewFolder made((folder.path() / "made").string());
    fs::create_directories(made.path() + "/deep/er");
    throw std::runtime_error("in between");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(NewFolder, NeverReplacesAnother) {
  const stbench::test::TemporaryFolder folder;
  const auto path = (folder.path() / "made").string();
  {
    NewFolder late(path);
    fs::create_directory(path);  // by another process, meanwhile; empty, so a plain rename would replace it
    EXPECT_THAT(refusal<FileError>([&] { late.publish(); }), HasSubstr("'made' cannot be given its name"));
    EXPECT_THAT(refusal<FileError>([&] { NewFolder again(path); }), HasSubstr("'made' cannot be created"));
  }
  EXPECT_TRUE(fs::is_empty(path));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  EXPECT_THAT(refusal<FileError>([&] { NewFolder(path + "/no/made"); }),
              HasSubstr("'made' cannot be created"));
  fs::create_symlink("nowhere", folder.path() / "link");
  EXPECT_THROW(NewFolder((folder.path() / "link").string()), FileError);
}

// Two at once, as from two threads that save.
TEST(NewFolder, MayBeMadeBesideAnotherOfTheSameName) {
  const stbench::test::TemporaryFolder folder;
  const auto path = (folder.path() / "made").string();
  NewFolder first(path), second(path);
  EXPECT_NE(first.path(), second.path());
  second.publish();
  EXPECT_THROW(first.publish(), FileError);
}

}  // namespace
}  // namespace speedtorch

#include "speedtorch/system/new_file.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "speedtorch/error.h"
#include "tests/harness/message_of.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/in_child.h"

namespace speedtorch {
namespace {

using stbench::test::content_of;
using stbench::test::message_of;
using stbench::test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class NewFiles : public testing::TestWithParam<Temporary> {
 protected:
  [[nodiscard]] std::string path() const { return (folder_.path() / "new.npy").string(); }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      found.push_back(entry.path().filename().string());
    return found;
  }
  [[nodiscard]] std::string refused(const std::string& at) const {
    return message_of<FileError>([&] { NewFile(at, GetParam()); });
  }

  TemporaryFolder folder_;
};

TEST_P(NewFiles, HaveTheirNameWhenTheyArePublished) {
  {
    NewFile file(path(), GetParam());
    file.resize(6, Space::sparse);
    file.write("whole!", 0);
    EXPECT_THAT(names(), Not(testing::Contains("new.npy")));
    file.publish();
    EXPECT_THAT(names(), ElementsAre("new.npy"));
  }
  EXPECT_EQ(content_of(path()), "whole!");
}

TEST_P(NewFiles, LeaveNothingIfUnpublished) {
  {
    const NewFile file(path(), GetParam());
    file.resize(6, Space::sparse);
    EXPECT_EQ(names().empty(), GetParam() == Temporary::unnamed_where_possible);
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_P(NewFiles, NeverReplaceAnother) {
  folder_.write("new.npy", "the other's");
  EXPECT_THAT(refused(path()), AllOf(StartsWith("'new.npy' cannot be created"), HasSubstr("File exists")));
  EXPECT_EQ(content_of(path()), "the other's");
  std::filesystem::remove(path());
  {
    NewFile file(path(), GetParam());
    folder_.write("new.npy", "the quicker's");
    EXPECT_THAT(message_of<FileError>([&] { file.publish(); }), HasSubstr("File exists"));
  }
  EXPECT_EQ(content_of(path()), "the quicker's");
  EXPECT_THAT(names(), ElementsAre("new.npy"));
}

TEST_P(NewFiles, DoNotFollowALinkThatNamesNothing) {
  std::filesystem::create_symlink("elsewhere", path());
  EXPECT_THAT(refused(path()), HasSubstr("File exists"));
}

TEST_P(NewFiles, AreAsTheUmaskSays) {
  const auto before = ::umask(0027);
  {
    NewFile file(path(), GetParam());
    file.publish();
  }
  ::umask(before);
  struct stat made {};
  ASSERT_EQ(::stat(path().c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777U, 0640U);
}

TEST_P(NewFiles, RefusalsSayWhy) {
  EXPECT_THAT(
      refused((folder_.path() / "no" / "new.npy").string()),
      AllOf(HasSubstr("'new.npy'"), HasSubstr("No such file"), Not(HasSubstr(folder_.path().string()))));
  EXPECT_THAT(refused(folder_.write("file", "") + "/new.npy"), HasSubstr("Not a directory"));
  EXPECT_THAT(refused(folder_.path().string() + "/"), HasSubstr("No such file"));
  EXPECT_THAT(refused((folder_.path() / std::string(300, 'a')).string()), HasSubstr("name too long"));
}

INSTANTIATE_TEST_SUITE_P(Until, NewFiles,
                         testing::Values(Temporary::unnamed_where_possible, Temporary::named),
                         [](const auto& test) {
                           return test.param == Temporary::unnamed_where_possible ? "unnamed" : "temporary";
                         });

class NewFileSizes : public NewFiles {};

TEST_P(NewFileSizes, TakeBlocksIfReserved) {
  for (const auto space : {Space::sparse, Space::reserved}) {
    const NewFile file(path(), GetParam());
    file.resize(1 << 20, space);
    struct stat made {};
    ASSERT_EQ(::fstat(file.duplicate().get(), &made), 0);
    EXPECT_EQ(made.st_size, 1 << 20);
    EXPECT_EQ(made.st_blocks * 512 >= 1 << 20, space == Space::reserved) << made.st_blocks;
  }
}

TEST_P(NewFileSizes, RefuseSizesBeyondTheLimitWithoutASignal) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const NewFile file(path(), GetParam());
  const struct rlimit small { 1 << 16, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto message = message_of<FileError>([&] { file.resize((1 << 16) + 1, Space::sparse); });
  EXPECT_NO_THROW(file.resize(1 << 16, Space::sparse));
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, AllOf(HasSubstr("65537"), HasSubstr("RLIMIT_FSIZE"), HasSubstr("65536")));
}

TEST_P(NewFileSizes, RefuseSizesBeyondTheDiskNamingTheFreeBytes) {
  const NewFile file(path(), GetParam());
  for (const auto space : {Space::sparse, Space::reserved}) {
    EXPECT_THAT(message_of<FileError>([&] { file.resize(std::int64_t{1} << 60, space); }),
                AllOf(HasSubstr("1152921504606846976"), HasSubstr("free")));
  }
}

INSTANTIATE_TEST_SUITE_P(Until, NewFileSizes, testing::Values(Temporary::unnamed_where_possible),
                         [](const auto&) { return "unnamed"; });

TEST_P(NewFileSizes, AWriteBeyondTheLimitIsAnErrorAndNoSignal) {
  const auto said = test::in_child([&] {
    const NewFile file(path(), GetParam());
    const struct rlimit small { 4096, 4096 };
    ::setrlimit(RLIMIT_FSIZE, &small);
    const auto message = message_of<FileError>([&] { file.write(std::string(5000, 'x'), 0); });
    sigset_t blocked, pending;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    ::sigpending(&pending);
    const bool restored = sigismember(&blocked, SIGXFSZ) == 0 && sigismember(&pending, SIGXFSZ) == 0;
    return message + (restored ? "; no signal is left" : "; a signal is left");
  });
  EXPECT_THAT(said, AllOf(HasSubstr("'new.npy' cannot be written: File too large"),
                          HasSubstr("; no signal is left")));
}

TEST_P(NewFileSizes, TheProcessKeepsWhatItDoesAboutTheSignal) {
  const auto said = test::in_child([&] {
    const NewFile file(path(), GetParam());
    file.write("x", 0);
    ::raise(SIGXFSZ);
    return std::string("the signal was lost");
  });
  EXPECT_EQ(said, "(ended by signal " + std::to_string(SIGXFSZ) + ")");
}

class Replacements : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(Replacements, KeepTheOldFilesPermissions) {
  folder_.write("t", "old");
  std::filesystem::permissions(path("t"), static_cast<std::filesystem::perms>(0640));
  replace_file(path("t"), "new");
  EXPECT_EQ(content_of(path("t")), "new");
  EXPECT_EQ(std::filesystem::status(path("t")).permissions(), static_cast<std::filesystem::perms>(0640));
}

TEST_F(Replacements, KeepLinksAndReplaceTheirTargets) {
  std::filesystem::create_directory(path("elsewhere"));
  folder_.write("elsewhere/t", "old");
  for (const char* name : {"t", "nothing yet"}) {
    const auto link = path(std::string("link to ") + name);
    std::filesystem::create_symlink(std::filesystem::path("elsewhere") / name, link);
    replace_file(link, "new");
    EXPECT_TRUE(std::filesystem::is_symlink(link)) << name;
    EXPECT_EQ(content_of(path(std::string("elsewhere/") + name)), "new");
  }
  std::filesystem::create_symlink("loop", path("loop"));
  EXPECT_THAT(message_of<FileError>([&] { replace_file(path("loop"), "new"); }), HasSubstr("'loop'"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("loop")));
}

class Warnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { said += warning.msg(); }
  std::string said;
};

TEST_F(Replacements, RemoveWhatAKilledProcessLeftAndWarnOfIt) {
  folder_.write(".t.new-0123456789abcdef", "half of a tab");
  folder_.write(".new.npy.new-0123456789abcdef", "half of a tab");
  Warnings warnings;
  {
    const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
    replace_file(path("t"), "new");
    EXPECT_THAT(warnings.said, HasSubstr("removed '.t.new-0123456789abcdef'"));
    const NewFile file(path("new.npy"));
    EXPECT_THAT(warnings.said, HasSubstr("removed '.new.npy.new-0123456789abcdef'"));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(Replacements, ReplaceRegularFilesOnly) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<FileError>([&] { replace_file(path("pipe"), "new"); }),
              HasSubstr("'pipe' is not a regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
}

TEST(BaseName, IsWhatFollowsTheLastSlash) {
  EXPECT_EQ(base_name("/a/b.npy"), "b.npy");
  EXPECT_EQ(base_name("b.npy"), "b.npy");
  EXPECT_EQ(base_name("a/"), "");
}

}  // namespace
}  // namespace speedtorch

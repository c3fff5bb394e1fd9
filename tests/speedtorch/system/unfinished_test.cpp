#include "speedtorch/system/unfinished.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/harness/temporary_folder.h"

namespace speedtorch {
namespace {

namespace fs = std::filesystem;
using stbench::test::content_of;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

/// A process that does its work and then waits until it is killed.
class Child {
 public:
  explicit Child(const std::function<void(const std::function<void()>& pause)>& work) {
    std::array<int, 2> ready{};
    if (::pipe2(ready.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      work([&] {
        (void)!::write(ready[1], "!", 1);
        while (true) ::pause();
      });
      ::_exit(1);
    }
    ::close(ready[1]);
    char said = 0;
    EXPECT_EQ(::read(ready[0], &said, 1), 1) << "the child ended by itself";
    ::close(ready[0]);
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void kill() {
    if (process_ > 0) ::kill(process_, SIGKILL), ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

class Unfinished : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }
  void write_file(int fd, std::string_view text) const {
    ASSERT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  stbench::test::TemporaryFolder folder_;
};

TEST_F(Unfinished, AKilledProcessesFileIsRemovedAndALivingOnesIsNot) {
  Child child([&](const auto& pause) {
    const UnfinishedFile file(path("t"), Temporary::named);
    pause();
  });
  ASSERT_THAT(names(), ElementsAre(StartsWith(".t.new-")));
  EXPECT_THAT(remove_leftovers(path("t")), IsEmpty());
  ASSERT_THAT(names(), SizeIs(1));
  child.kill();
  const auto left = names();
  EXPECT_EQ(remove_leftovers(path("t")), left);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(Unfinished, AKilledProcessesFolderIsRemovedWithAllInItAndALivingOnesIsNot) {
  Child child([&](const auto& pause) {
    const UnfinishedFolder made(path("t"));
    fs::create_directories(made.path() + "/deep/er");
    pause();
  });
  EXPECT_THAT(remove_leftovers(path("t")), IsEmpty());
  ASSERT_THAT(names(), ElementsAre(StartsWith(".t.new-")));
  child.kill();
  EXPECT_THAT(remove_leftovers(path("t")), SizeIs(1));
  EXPECT_THAT(names(), IsEmpty());
}

// Between the link to its temporary name and the rename, the next process must not take a living process's
// file for a leftover.
TEST_F(Unfinished, AFileWithoutANameIsLockedBeforeItGetsATemporaryOne) {
  const UnfinishedFile file(path("t"), Temporary::unnamed_where_possible);
  ASSERT_EQ(file.error(), 0);
  const std::string link = "/proc/self/fd/" + std::to_string(file.get()), name = ".t.new-0123456789abcdef";
  if (::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, path(name).c_str(), AT_SYMLINK_FOLLOW) != 0)
    GTEST_SKIP() << "the file system has no files without a name";
  EXPECT_THAT(remove_leftovers(path("t")), IsEmpty());
  EXPECT_THAT(names(), ElementsAre(name));
}

TEST_F(Unfinished, OnlyTemporaryNamesAreRemoved) {
  const std::string digits = "0123456789abcdef";
  const std::vector<std::string> others = {".t.new-" + digits + "0", ".t.new-0123456789ABCDEF", ".t.new-123",
                                           ".tt.new-" + digits,      "t.new-" + digits,         "t"};
  for (const auto& name : others) folder_.write(name, "another's");
  folder_.write(".t.new-" + digits, "left");
  fs::create_symlink("t", path(".t.new-1123456789abcdef"));
  ASSERT_EQ(::mkfifo(path(".t.new-2123456789abcdef").c_str(), 0600), 0);
  EXPECT_THAT(remove_leftovers(path("t")), ElementsAre(".t.new-" + digits));
  EXPECT_THAT(names(), SizeIs(others.size() + 2));
  EXPECT_THAT(remove_leftovers(path("no/such/folder")), IsEmpty());
}

class UnfinishedFiles : public Unfinished, public testing::WithParamInterface<Temporary> {};

TEST_P(UnfinishedFiles, HaveTheirNameWhenTheyArePublishedAndReplaceNothing) {
  UnfinishedFile first(path("t"), GetParam()), second(path("t"), GetParam());
  write_file(first.get(), "first");
  EXPECT_EQ(first.publish(), 0);
  EXPECT_EQ(second.publish(), EEXIST);
  EXPECT_EQ(content_of(path("t")), "first");
}

TEST_P(UnfinishedFiles, ReplaceAnother) {
  folder_.write("t", "old");
  {
    UnfinishedFile file(path("t"), GetParam());
    write_file(file.get(), "new");
    EXPECT_EQ(content_of(path("t")), "old");
    EXPECT_EQ(file.replace(), 0);
    EXPECT_EQ(file.sync_folder(), 0);
  }
  EXPECT_EQ(content_of(path("t")), "new");
  EXPECT_THAT(names(), ElementsAre("t"));
}

TEST_P(UnfinishedFiles, LeaveNothingIfUnpublished) {
  { const UnfinishedFile file(path("t"), GetParam()); }
  EXPECT_THAT(names(), IsEmpty());
}

// A mapped table's file stays open as long as the table lives.
TEST_P(UnfinishedFiles, AreNotLockedOnceTheyHaveTheirName) {
  UnfinishedFile file(path("t"), GetParam());
  const Descriptor mapped(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  ASSERT_EQ(file.replace(), 0);
  const Descriptor other(::open(path("t").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
}

TEST_P(UnfinishedFiles, MayHaveTheLongestName) {
  const std::string name(255, 'a');
  UnfinishedFile file(path(name), GetParam());
  EXPECT_EQ(file.replace(), 0);
  EXPECT_THAT(names(), ElementsAre(name));
}

TEST_P(UnfinishedFiles, RefusalsSayWhy) {
  EXPECT_EQ(UnfinishedFile(path("no/t"), GetParam()).error(), ENOENT);
  folder_.write("file", "");
  EXPECT_EQ(UnfinishedFile(path("file/t"), GetParam()).error(), ENOTDIR);
  EXPECT_THAT(names(), ElementsAre("file"));
}

INSTANTIATE_TEST_SUITE_P(Both, UnfinishedFiles,
                         testing::Values(Temporary::unnamed_where_possible, Temporary::named),
                         [](const auto& test) {
                           return test.param == Temporary::named ? "Named" : "Unnamed";
                         });

TEST_F(Unfinished, AFolderReplacesAnother) {
  folder_.write("t/old", "old");
  {
    UnfinishedFolder made(path("t"));
    std::ofstream(made.path() + "/new") << "new";
    EXPECT_EQ(made.replace(), 0);
    EXPECT_EQ(content_of(path("t/new")), "new");
  }
  EXPECT_THAT(names(), ElementsAre("t"));
  EXPECT_FALSE(fs::exists(path("t/old")));
}

}  // namespace
}  // namespace speedtorch

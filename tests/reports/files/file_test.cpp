#include "reports/files/file.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>

#include "reports/error.h"
#include "reports/files/csv.h"
#include "reports/files/json.h"
#include "tests/harness/temporary_folder.h"
#include "tests/reports/sample_report.h"

namespace stbench::reports {
namespace {

namespace fs = std::filesystem;
using speedtorch::Temporary;
using stbench::test::content_of;
using stbench::test::TemporaryFolder;

void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ReportError& error) {
    return error.what();
  }
  return "no error";
}

/// Runs the action in a child and gives its exit status, or minus the signal that ended it.
int in_child(const std::function<int()>& action) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(action());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Each test with temporary files of both kinds, in a folder of its own.
class FileTest : public testing::TestWithParam<Temporary> {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path().string();
};

TEST_P(FileTest, WritesTheWholeText) {
  const std::string text(3 << 20, 'x');
  ReportFile(path("t.csv"), GetParam()).write(text);
  EXPECT_EQ(content_of(path("t.csv")), text);
  EXPECT_EQ(files(), 1U);
}

TEST_P(FileTest, ReplacesOldContentWhole) {
  put(path("t.csv"), "a much longer old report");
  ReportFile file(path("t.csv"), GetParam());
  EXPECT_EQ(content_of(path("t.csv")), "a much longer old report") << "claiming must not touch it";
  file.write("new");
  EXPECT_EQ(content_of(path("t.csv")), "new");
  EXPECT_EQ(files(), 1U);
}

TEST_P(FileTest, LeavesNothingBehindWithoutWriting) {
  put(path("old.csv"), "old");
  {
    const ReportFile claimed(path("t.csv"), GetParam());
    const ReportFile over(path("old.csv"), GetParam());
  }
  EXPECT_FALSE(fs::exists(path("t.csv")));
  EXPECT_EQ(content_of(path("old.csv")), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_P(FileTest, HasTheModeOfAnOrdinaryFile) {
  const mode_t mask = ::umask(027);
  ReportFile(path("t.csv"), GetParam()).write("x");
  ::umask(mask);
  EXPECT_EQ(fs::status(path("t.csv")).permissions(), static_cast<fs::perms>(0640));
}

TEST_P(FileTest, WritesBehindALink) {
  fs::create_directory(path("elsewhere"));
  put(path("elsewhere/t.csv"), "old");
  fs::create_symlink(path("elsewhere/t.csv"), path("link.csv"));
  ReportFile(path("link.csv"), GetParam()).write("new");
  EXPECT_TRUE(fs::is_symlink(path("link.csv")));
  EXPECT_EQ(content_of(path("elsewhere/t.csv")), "new");
}

TEST_P(FileTest, MakesWhatADanglingLinkLeadsTo) {
  fs::create_directory(path("elsewhere"));
  fs::create_symlink("elsewhere/second.csv", path("first.csv"));
  fs::create_symlink("t.csv", path("elsewhere/second.csv"));
  ReportFile(path("first.csv"), GetParam()).write("new");
  EXPECT_TRUE(fs::is_symlink(path("first.csv")));
  EXPECT_TRUE(fs::is_symlink(path("elsewhere/second.csv")));
  EXPECT_EQ(content_of(path("elsewhere/t.csv")), "new");
}

TEST_P(FileTest, RefusesLinksThatLeadNowhere) {
  fs::create_symlink("loop.csv", path("loop.csv"));
  fs::create_symlink("missing/t.csv", path("lost.csv"));
  const auto claim = [&](const char* name) {
    return error_of([&] { const ReportFile claimed(path(name), GetParam()); });
  };
  EXPECT_NE(claim("loop.csv").find("symbolic links"), std::string::npos) << claim("loop.csv");
  EXPECT_NE(claim("lost.csv").find("No such file or directory"), std::string::npos) << claim("lost.csv");
  EXPECT_EQ(files(), 2U);
}

TEST_P(FileTest, IsForWhomTheOldReportWas) {
  put(path("t.csv"), "old");
  for (const auto mode : {0640U, 0600U, 0664U}) {
    fs::permissions(path("t.csv"), static_cast<fs::perms>(mode));
    ReportFile(path("t.csv"), GetParam()).write("new");
    EXPECT_EQ(fs::status(path("t.csv")).permissions(), static_cast<fs::perms>(mode));
  }
}

TEST_P(FileTest, KeepsOwnerAndGroupWhereItMay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to others";
  constexpr uid_t kUser = 12'345, kGroup = 23'456;
  put(path("t.csv"), "old");
  ASSERT_EQ(::chown(path("t.csv").c_str(), kUser, kGroup), 0);
  ReportFile(path("t.csv"), GetParam()).write("new");
  struct stat state {};
  ASSERT_EQ(::stat(path("t.csv").c_str(), &state), 0);
  EXPECT_EQ(state.st_uid, kUser);
  EXPECT_EQ(state.st_gid, kGroup);
}

TEST_P(FileTest, AGroupThatCannotBeKeptLendsItsRightsToNoOther) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of a group that a user is not in";
  constexpr uid_t kNobody = 65'534, kGroup = 23'456;
  put(path("t.csv"), "old");
  fs::permissions(path("t.csv"), static_cast<fs::perms>(0664));
  fs::permissions(folder_, fs::perms::all);
  ASSERT_EQ(::chown(path("t.csv").c_str(), kNobody, kGroup), 0);
  EXPECT_EQ(in_child([&] {
              if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) return 1;
              ReportFile(path("t.csv"), GetParam()).write("new");
              return 0;
            }),
            0);
  EXPECT_EQ(fs::status(path("t.csv")).permissions(), static_cast<fs::perms>(0644));
}

TEST_P(FileTest, AcceptsANameWithoutAFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  ReportFile("t.csv", GetParam()).write("x");
  fs::current_path(before);
  EXPECT_EQ(content_of(path("t.csv")), "x");
}

TEST_P(FileTest, IsWrittenOnce) {
  ReportFile file(path("t.csv"), GetParam());
  file.write("x");
  EXPECT_THROW(file.write("y"), std::logic_error);
  EXPECT_EQ(content_of(path("t.csv")), "x");
}

TEST_P(FileTest, RefusesBeforeMeasuring) {
  put(path("file"), "x");
  const auto claim = [&](const std::string& target) {
    return error_of([&] { const ReportFile claimed(target, GetParam()); });
  };
  EXPECT_NE(claim("").find("a file name"), std::string::npos) << claim("");
  EXPECT_NE(claim(folder_).find("it is a folder"), std::string::npos);
  EXPECT_NE(claim(folder_ + "/").find("folder"), std::string::npos);
  const std::string missing = claim(path("missing/t.csv"));
  EXPECT_NE(missing.find(path("missing/t.csv")), std::string::npos) << missing;
  EXPECT_NE(missing.find("No such file or directory"), std::string::npos) << missing;
  EXPECT_NE(missing.find("folder that exists"), std::string::npos) << missing;
  EXPECT_NE(claim(path("file/t.csv")).find("would be right"), std::string::npos) << claim(path("file/t.csv"));
  EXPECT_NE(claim(path("new/")).find("folder"), std::string::npos) << claim(path("new/"));
  EXPECT_NE(claim("/proc/t.csv").find("would be right"), std::string::npos) << claim("/proc/t.csv");
  EXPECT_EQ(files(), 1U);
}

TEST_P(FileTest, RefusesAFolderOrFileThatIsNotOurs) {
  put(path("t.csv"), "old");
  fs::permissions(path("t.csv"), static_cast<fs::perms>(0444));
  fs::permissions(folder_, static_cast<fs::perms>(0555));
  const int status = in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) return 1;  // root may write anywhere
    const std::string in_folder = error_of([&] { const ReportFile claimed(path("new.csv"), GetParam()); });
    const std::string over_file = error_of([&] { const ReportFile claimed(path("t.csv"), GetParam()); });
    const bool said = in_folder.find("Permission denied") != std::string::npos &&
                      in_folder.find("a folder you may write to") != std::string::npos &&
                      over_file.find("a file you may write to") != std::string::npos;
    return said ? 0 : 2;
  });
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(status, 0);
}

TEST_P(FileTest, AFullDiskLeavesTheOldReport) {
  put(path("t.csv"), "old");
  const int status = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const std::string said =
        error_of([&] { ReportFile(path("t.csv"), GetParam()).write(std::string(10'000, 'x')); });
    return said.find("File too large") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content_of(path("t.csv")), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_P(FileTest, AKilledProcessLeavesNoReport) {
  put(path("old.csv"), "old");
  const int status = in_child([&] {
    const ReportFile fresh(path("t.csv"), GetParam());
    const ReportFile over(path("old.csv"), GetParam());
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(status, -SIGKILL);
  EXPECT_FALSE(fs::exists(path("t.csv")));
  EXPECT_EQ(content_of(path("old.csv")), "old");
  if (GetParam() == Temporary::unnamed_where_possible && fs::exists("/proc/self/fd")) {
    const speedtorch::Descriptor probe(::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_TRUE(!probe.valid() || files() == 1) << "a file without a name goes with its process";
  }
  const bool was_left = files() > 1;
  testing::internal::CaptureStderr();
  ReportFile(path("old.csv"), GetParam()).write("new");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.starts_with("stbench: removed \".old.csv.new-"), was_left) << said;
  const ReportFile claimed(path("t.csv"), Temporary::unnamed_where_possible);
  EXPECT_EQ(files(), 1U) << "what the killed process left is removed by the next";
}

INSTANTIATE_TEST_SUITE_P(Both, FileTest, testing::Values(Temporary::unnamed_where_possible, Temporary::named),
                         [](const auto& kind) {
                           return kind.param == Temporary::named ? "Named" : "Unnamed";
                         });

TEST(ReportFile, WritesDevicesInPlace) {
  struct stat before {};
  ASSERT_EQ(::stat("/dev/null", &before), 0);
  ReportFile("/dev/null").write("x");
  struct stat after {};
  ASSERT_EQ(::stat("/dev/null", &after), 0);
  EXPECT_TRUE(S_ISCHR(after.st_mode)) << "a device must not be replaced by a file";
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST(ReportFile, SaysThatTheDeviceIsFull) {
  const std::string said = error_of([] { ReportFile("/dev/full").write("x"); });
  EXPECT_NE(said.find("No space left on device"), std::string::npos) << said;
  EXPECT_NE(said.find("/dev/full"), std::string::npos) << said;
}

TEST(ReportFile, ADashIsTheStandardOutput) {
  testing::internal::CaptureStdout();
  ReportFile("-").write("a,b\r\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a,b\r\n");
}

TEST(ReadReport, ChoosesByContent) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "report";  // its name says nothing
  const Report report = sample_report();
  ReportFile(path).write(to_json(report));
  EXPECT_EQ(to_json(read_report(path)), to_json(report));
  ReportFile(path).write("\xEF\xBB\xBF \n" + to_json(report));
  EXPECT_EQ(to_json(read_report(path)), to_json(report));
  ReportFile(path).write(to_csv(report));
  EXPECT_EQ(to_csv(read_report(path)), to_csv(report));
  ReportFile(path).write("");
  EXPECT_NE(error_of([&] { read_report(path); }).find("is empty"), std::string::npos);
}

TEST(ReadReport, RefusesTheSameCaseTwice) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "report";
  Report report = sample_report();
  report.records.push_back(report.records[1]);
  const auto last = report.records.size();
  for (const std::string& text : {to_json(report), to_csv(report)}) {
    put(path, text);
    const std::string said = error_of([&] { read_report(path); });
    EXPECT_NE(said.find("cases 2 and " + std::to_string(last) + " of " + path), std::string::npos) << said;
  }
}

TEST(ReadReport, SaysWhyAFileCannotBeRead) {
  EXPECT_NE(error_of([] { read_file("/no/such.json"); }).find("\"/no/such.json\": No such file"),
            std::string::npos);
  EXPECT_NE(error_of([] { read_file("/"); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(error_of([] { read_file("/dev/zero", 1'000'000); }).find("larger than 1000000 bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace stbench::reports

/// Named tables on a disk that is full or fills up: a file system of 4 MiB in memory, in a child process.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/tables/table.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/in_child.h"

namespace speedtorch {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::int64_t kTableRows = 12'000, kTableDim = 64;  // 3 MB

bool write_file(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  return static_cast<bool>(file.flush());
}

/// Root may mount directly; other users can on systems with user namespaces.
bool mount_disk(const std::string& folder) {
  const auto user = std::to_string(::geteuid()), group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    write_file("/proc/self/setgroups", "deny");
    if (!write_file("/proc/self/uid_map", "0 " + user + " 1") ||
        !write_file("/proc/self/gid_map", "0 " + group + " 1"))
      return false;
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", folder.c_str(), "tmpfs", 0, "size=4m") == 0;
}

class FullDisk : public testing::Test {
 protected:
  /// Returns what `work` returns, with the small disk at folder(). Skips the test if there is no such disk.
  std::string on_small_disk(const std::function<std::string()>& work) {
    return test::in_child([&] {
      if (!mount_disk(folder())) return std::string("no disk: ") + std::strerror(errno);
      return work();
    });
  }
  [[nodiscard]] std::string folder() const { return folder_.path().string(); }
  [[nodiscard]] TableOptions home(Space space) const {
    return {.placement = Placement::mapped, .file = folder() + "/table.npy", .space = space};
  }
  /// Fills the rest of the disk, as other processes may meanwhile. Returns its bytes.
  [[nodiscard]] std::int64_t fill_rest() const {
    const Descriptor file(::open((folder() + "/others").c_str(), O_CREAT | O_WRONLY, 0600));
    const std::string block(4096, 'x');
    std::int64_t bytes = 0;
    while (::write(file.get(), block.data(), block.size()) == static_cast<ssize_t>(block.size()))
      bytes += 4096;
    return bytes;
  }
  stbench::test::TemporaryFolder folder_;
};

#define NEEDS_DISK(answer)                             \
  if (std::string_view(answer).starts_with("no disk")) \
  GTEST_SKIP() << "no file system can be mounted: " << (answer)

TEST_F(FullDisk, LeavesTheTableWholeIfItFillsDuringAFill) {
  const auto answer = on_small_disk([&] {
    bool is_first = true;
    const ByPieces fill = [&](at::Tensor& rows, std::int64_t) {
      if (std::exchange(is_first, false)) static_cast<void>(fill_rest());
      std::fill_n(rows.mutable_data_ptr<float>(), rows.numel(), 2.0F);
    };
    const auto table =
        Table::filled({kTableRows, kTableDim}, at::kFloat, fill, home(Space::reserved)).tensor();
    const auto* const first = table.const_data_ptr<float>();
    const bool whole = std::all_of(first, first + table.numel(), [](float value) { return value == 2; });
    return std::string(whole ? "whole" : "not whole");
  });
  NEEDS_DISK(answer);
  EXPECT_EQ(answer, "whole");
}

TEST_F(FullDisk, RefusesATableThatDoesNotFitAndKeepsNothingOfIt) {
  const auto answer = on_small_disk([&] {
    const auto others = fill_rest() - (1 << 20);
    std::filesystem::resize_file(folder() + "/others", static_cast<std::uintmax_t>(others));  // 1 MiB is free
    std::string error;
    try {
      (void)Table::filled({kTableRows, kTableDim}, at::kFloat, Zeros{}, home(Space::reserved));
    } catch (const FileError& refused) {
      error = refused.what();
    }
    const auto left = std::distance(std::filesystem::directory_iterator(folder()), {});
    return std::to_string(left) + " file, " + error;
  });
  NEEDS_DISK(answer);
  EXPECT_THAT(answer, StartsWith("1 file, 'table.npy' cannot be created"));
  EXPECT_THAT(answer, HasSubstr("3076096 bytes"));
}

TEST_F(FullDisk, IsTakenAtOnceUnlessTheCallerAsksForASparseFile) {
  const auto blocks = [&](std::optional<Space> space) {
    return on_small_disk([&] {
      TableOptions where{.placement = Placement::mapped, .file = folder() + "/table.npy"};
      if (space) where.space = *space;
      (void)Table::empty({kTableRows, kTableDim}, at::kFloat, where);
      struct stat found {};
      ::stat(where.file.c_str(), &found);
      return std::string(found.st_blocks * 512 >= 3'000'000 ? "taken" : "not taken");
    });
  };
  NEEDS_DISK(blocks({}));
  EXPECT_EQ(blocks({}), "taken");
  EXPECT_EQ(blocks(Space::reserved), "taken");
  EXPECT_EQ(blocks(Space::sparse), "not taken");
}

}  // namespace
}  // namespace speedtorch

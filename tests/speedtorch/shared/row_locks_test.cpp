#include "speedtorch/shared/row_locks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include "speedtorch/error.h"
#include "speedtorch/memory/shared_memory.h"
#include "tests/speedtorch/refusal.h"

namespace speedtorch {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kRows = 40, kRowBytes = 1000;
constexpr milliseconds kPatience{60'000};

/// A table of rows of one letter, and its locks, which forked children share.
class RowLocksTest : public testing::Test {
 protected:
  [[nodiscard]] std::byte* rows() const { return memory_->data(); }
  [[nodiscard]] std::string row(std::int64_t number) const {
    return {reinterpret_cast<const char*>(rows() + number * kRowBytes), static_cast<std::size_t>(kRowBytes)};
  }
  void write(std::int64_t number, char letter, milliseconds timeout = kPatience) const {
    const auto set = [&](std::byte* value) { std::memset(value, letter, kRowBytes); };
    locks_->write(rows(), number, set, timeout);
  }
  /// Forks a child that writes a row, and calls `before` and then waits for ever while it has the lock.
  /// Returns once it has called it.
  pid_t stop_in_write(std::int64_t number, const std::function<void()>& before) const {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      locks_->write(
          rows(), number,
          [&](std::byte* value) {
            std::memset(value, 'x', kRowBytes / 2);
            before();
            (void)!::write(ends[1], "!", 1);
            for (;;) ::pause();
          },
          kPatience);
    }
    ::close(ends[1]);
    char said = 0;
    EXPECT_EQ(::read(ends[0], &said, 1), 1);
    ::close(ends[0]);
    return child;
  }
  static void kill(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  std::shared_ptr<Memory> memory_ = allocate_shared(Placement::pageable, kRows* kRowBytes);
  std::unique_ptr<RowLocks> locks_ = RowLocks::create(kRows, kRowBytes);
};

TEST_F(RowLocksTest, AreAsManyAsPayAndNeverMoreThanRows) {
  EXPECT_EQ(RowLocks::count_for(1'000'000, 512), 1024);
  EXPECT_EQ(RowLocks::count_for(1000, 8), 512);
  EXPECT_EQ(RowLocks::count_for(1, 512), 1);
  EXPECT_EQ(RowLocks::count_for(0, 0), 1);
  EXPECT_EQ(RowLocks::count_for(1'000'000, 65536), 64);
  EXPECT_EQ(RowLocks::count_for(1'000'000, std::int64_t{1} << 30), 1);
}

TEST_F(RowLocksTest, ARowIsWrittenAndNoOther) {
  write(7, 'a');
  EXPECT_EQ(row(7), std::string(kRowBytes, 'a'));
  EXPECT_EQ(row(6), std::string(kRowBytes, '\0'));
  EXPECT_EQ(row(8), std::string(kRowBytes, '\0'));
}

TEST_F(RowLocksTest, TheLockOfAKilledWriterIsReleasedAndItsRowStaysOld) {
  write(3, 'a');
  kill(stop_in_write(3, [] {}));
  EXPECT_EQ(locks_->finish_all(rows(), kPatience), 0) << "it had not begun to copy";
  EXPECT_EQ(row(3), std::string(kRowBytes, 'a'));
  kill(stop_in_write(3, [] {}));
  write(3, 'b');
  EXPECT_EQ(row(3), std::string(kRowBytes, 'b'));
  EXPECT_EQ(locks_->finish_all(rows(), kPatience), 0);
}

/// A child that dies half-way through a row, because the row's end may not be written there.
void die_in_copy(const RowLocks& locks, std::byte* rows, std::int64_t number) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::signal(SIGSEGV, SIG_DFL);
    ::mprotect(rows + page, page, PROT_READ);
    locks.write(
        rows, number, [](std::byte* value) { std::memset(value, 'n', kRowBytes); }, kPatience);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "it could write the whole row";
}

TEST_F(RowLocksTest, ARowWhoseWriterDiesMeanwhileIsFinished) {
  constexpr std::int64_t straddles = 4;  // bytes 4000 to 5000: two pages of 4 KiB
  if (::sysconf(_SC_PAGESIZE) != 4096)
    GTEST_SKIP() << "the row must lie on two pages, and these are not of 4 KiB";
  const std::string whole(kRowBytes, 'n');
  write(straddles, 'o');
  die_in_copy(*locks_, rows(), straddles);
  EXPECT_NE(row(straddles), whole);
  EXPECT_EQ(locks_->finish_all(rows(), kPatience), 1);
  EXPECT_EQ(row(straddles), whole);
  EXPECT_EQ(locks_->finish_all(rows(), kPatience), 0);

  write(straddles, 'o');
  die_in_copy(*locks_, rows(), straddles);
  write(straddles + locks_->count(), 'p');  // another row of the same lock finishes it too
  EXPECT_EQ(row(straddles), whole);
}

TEST_F(RowLocksTest, ALockThatIsNotReleasedIsNamedWithItsOwner) {
  const pid_t child = stop_in_write(5, [] {});
  EXPECT_THAT(refusal<SharingError>([&] { write(5 + locks_->count(), 'c', milliseconds(20)); }),
              AllOf(HasSubstr("the lock of row 5 and every 32nd row after it is owned by thread " +
                              std::to_string(child)),
                    HasSubstr("for more than 20 ms")));
  write(6, 'c');
  EXPECT_EQ(row(6), std::string(kRowBytes, 'c')) << "other locks are free";
  kill(child);
  write(5, 'c');
}

TEST_F(RowLocksTest, AWaitingWriterGetsTheLockOfAKilledOne) {
  const pid_t child = stop_in_write(5, [] {});
  std::thread waiting([&] { write(5, 'w'); });
  kill(child);
  waiting.join();
  EXPECT_EQ(row(5), std::string(kRowBytes, 'w'));
}

}  // namespace
}  // namespace speedtorch

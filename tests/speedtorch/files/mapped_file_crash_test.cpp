/// What a mapped file contains after a crash. For kill -9, a writer is killed at random moments and its file
/// is compared with a log of its completed flushes. For a power failure, msync() is replaced by one that
/// keeps what a disk would have: between two flushes the disk has any mix of old and new sectors.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <thread>

#include "harness/random.h"
#include "speedtorch/error.h"
#include "speedtorch/files/mapped_file.h"
#include "tests/harness/message_of.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/files/epoch_rows.h"

namespace {

using MsyncCall = std::pair<std::byte*, std::size_t>;
std::function<int(MsyncCall)> on_msync;  ///< the test's answer; -1: it fails with EIO

}  // namespace

/// Replaces the C library's function in this program.
extern "C" int msync(void* address, std::size_t length, int flags) {
  if (on_msync && on_msync({static_cast<std::byte*>(address), length}) != 0) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_msync, address, length, flags));
}

namespace speedtorch {
namespace {

using stbench::harness::key_of;
using stbench::harness::Random;
using stbench::test::content_of;
using stbench::test::message_of;
using stbench::test::TemporaryFolder;
using test::kWords;
using test::Row;
using test::row_of;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kRows = 3000;
constexpr std::int64_t kHeader = 4096;

/// The distinct rows that one epoch writes: a run of rows, or rows anywhere.
struct Write {
  bool run;
  std::vector<std::int64_t> rows;
};

Write write_of(std::int64_t epoch) {
  Random random(key_of(11, 0, static_cast<std::uint64_t>(epoch)));
  const std::int64_t count = 1 + random.below(200);
  Write write{random.below(2) == 0, {}};
  const auto first = random.below(kRows - count);
  const stbench::harness::Permutation anywhere(kRows, random.word());
  for (std::int64_t i = 0; i < count; ++i) write.rows.push_back(write.run ? first + i : anywhere(i));
  return write;
}

at::Tensor values_of(const Write& write, std::int64_t epoch) {
  auto values = at::empty({std::int64_t(write.rows.size()), kWords}, at::kLong);
  for (std::size_t i = 0; i < write.rows.size(); ++i) {
    const Row row = row_of(write.rows[i], epoch);
    std::memcpy(values.data_ptr<std::int64_t>() + i * kWords, row.data(), sizeof(row));
  }
  return values;
}

void scatter(MappedFile& file, const Write& write, std::int64_t epoch) {
  scatter_rows(file, at::tensor(write.rows, at::kLong), values_of(write, epoch));
}

void flush(MappedFile& file, const Write& write) {
  if (write.run) {
    file.flush(write.rows.front(), static_cast<std::int64_t>(write.rows.size()));
  } else {
    file.flush();
  }
}

void create(const std::string& path) {
  MappedFile::create(path, {kRows, kWords}, at::kLong, [](at::Tensor& array) {
    for (std::int64_t row = 0; row < kRows; ++row)
      std::memcpy(array.data_ptr<std::int64_t>() + row * kWords, row_of(row, 0).data(), sizeof(Row));
  });
}

/// The required content of each row: the epoch of its last flush, or any content while a later one is in
/// flight.
class Expectation {
 public:
  void begin(const Write& write) { set(write, kAnything); }
  void done(const Write& write, std::int64_t epoch) { set(write, epoch); }

  /// The number of wrong rows among the elements in `content`.
  [[nodiscard]] int broken(const char* content) const {
    int count = 0;
    for (std::size_t row = 0; row < epochs_.size(); ++row) {
      if (epochs_[row] == kAnything) continue;
      const Row wanted = row_of(static_cast<std::int64_t>(row), epochs_[row]);
      count += std::memcmp(wanted.data(), content + row * sizeof(Row), sizeof(Row)) == 0 ? 0 : 1;
    }
    return count;
  }
  [[nodiscard]] std::int64_t settled() const {
    return std::ranges::count_if(epochs_, [](auto epoch) { return epoch > 0; });
  }

 private:
  static constexpr std::int64_t kAnything = -1;
  void set(const Write& write, std::int64_t epoch) {
    for (const auto row : write.rows) epochs_[static_cast<std::size_t>(row)] = epoch;
  }
  std::vector<std::int64_t> epochs_ = std::vector<std::int64_t>(kRows, 0);
};

/// When to kill: at random within a span that adapts to the machine's speed, so that the critical moments are
/// hit.
class Moment {
 public:
  [[nodiscard]] std::chrono::microseconds next() {
    return std::chrono::microseconds(random_.below(static_cast<std::int64_t>(span_)));
  }
  void was_early() { span_ *= 1.5; }
  void was_late() { span_ /= 1.5; }

 private:
  Random random_{key_of(3, static_cast<std::uint64_t>(::getpid()), 0)};
  double span_ = 50'000;
};

/// A child that runs `work` until it is killed, this long after it reported ready.
template <class Work>
void run_and_kill(Work work, std::chrono::microseconds later) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      work([&] { (void)!::write(ready[1], "!", 1); });
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the writer failed: %s\n", error.what());
    }
    ::_exit(1);
  }
  ::close(ready[1]);
  char said = 0;
  EXPECT_EQ(::read(ready[0], &said, 1), 1);
  ::close(ready[0]);
  std::this_thread::sleep_for(later);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself";
}

class Ledger {
 public:
  explicit Ledger(const std::string& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}

  /// Logs 2e before epoch `e` is written, and 2e + 1 once it is flushed. One write of 8 bytes: whole or
  /// absent.
  void add(std::int64_t entry) const {
    if (::write(file_.get(), &entry, sizeof(entry)) != sizeof(entry) || ::fdatasync(file_.get()) != 0)
      throw std::runtime_error("the ledger cannot be written");
  }
  [[nodiscard]] std::vector<std::int64_t> entries() const {
    std::vector<std::int64_t> all(static_cast<std::size_t>(::lseek(file_.get(), 0, SEEK_END)) / 8);
    EXPECT_EQ(::pread(file_.get(), all.data(), all.size() * 8, 0), static_cast<ssize_t>(all.size() * 8));
    return all;
  }

 private:
  Descriptor file_;
};

Expectation expectation_of(const std::vector<std::int64_t>& entries) {
  Expectation expectation;
  for (const auto entry : entries) {
    const auto write = write_of(entry / 2);
    entry % 2 == 0 ? expectation.begin(write) : expectation.done(write, entry / 2);
  }
  return expectation;
}

/// Two threads write each epoch's halves. LibTorch's own threads do not survive a fork.
[[noreturn]] void write_for_ever(const std::string& path, const Ledger& ledger, std::int64_t epoch,
                                 const std::function<void()>& say_ready) {
  at::set_num_threads(1);
  const auto file = MappedFile::open(path, Access::read_write);
  say_ready();
  for (;; ++epoch) {
    const auto write = write_of(epoch);
    const auto half = write.rows.begin() + std::int64_t(write.rows.size()) / 2;
    ledger.add(2 * epoch);
    std::thread other([&] { scatter(*file, {false, {write.rows.begin(), half}}, epoch); });
    scatter(*file, {false, {half, write.rows.end()}}, epoch);
    other.join();
    flush(*file, write);
    ledger.add(2 * epoch + 1);
  }
}

TEST(MappedFileCrash, AKilledWriterLeavesWhatItFlushed) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "table.npy").string();
  const Ledger ledger((folder.path() / "ledger").string());
  create(path);
  Moment moment;
  int in_flight = 0;
  for (int kill = 0; kill < STBENCH_KILLS; ++kill) {
    const auto before = ledger.entries();
    const std::int64_t next = before.empty() ? 1 : before.back() / 2 + 1;
    run_and_kill([&](const auto& ready) { write_for_ever(path, ledger, next, ready); }, moment.next());
    const auto entries = ledger.entries();
    entries.size() < before.size() + 10 ? moment.was_early() : moment.was_late();
    in_flight += entries.empty() || entries.back() % 2 == 1 ? 0 : 1;
    ASSERT_EQ(expectation_of(entries).broken(content_of(path).data() + kHeader), 0) << "kill " << kill;
  }
  const auto entries = ledger.entries();
  RecordProperty("kills", STBENCH_KILLS);
  std::cout << STBENCH_KILLS << " kills, " << in_flight << " while an epoch was in flight; "
            << entries.size() / 2 << " epochs, " << expectation_of(entries).settled() << " of " << kRows
            << " rows known at the end\n";
  EXPECT_GT(in_flight, STBENCH_KILLS / 10) << "the kills missed the moments that matter";
  EXPECT_GT(expectation_of(entries).settled(), kRows / 10);
}

TEST(MappedFileCrash, ACreatorThatIsKilledLeavesAWholeFileOrNone) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "table.npy").string();
  Moment moment;
  int there = 0;
  for (int kill = 0; kill < STBENCH_KILLS; ++kill) {
    run_and_kill(
        [&](const auto& ready) {
          ready();
          create(path);
          ::pause();
        },
        moment.next());
    const bool made = std::filesystem::exists(path);
    made ? moment.was_late() : moment.was_early();
    if (made) {
      ASSERT_EQ(Expectation().broken(content_of(path).data() + kHeader), 0) << "kill " << kill;
      ASSERT_EQ(std::filesystem::file_size(path), static_cast<std::uintmax_t>(kHeader + kRows * kWords * 8));
    }
    there += made ? 1 : 0;
    std::filesystem::remove(path);
    ASSERT_TRUE(std::filesystem::is_empty(folder.path())) << "something was left behind";
  }
  std::cout << STBENCH_KILLS << " kills, " << there << " after the file was there\n";
  EXPECT_GT(there, 0);
  EXPECT_LT(there, STBENCH_KILLS);
}

/// A disk that has all synced data, and of the rest any mix of old and new.
class PowerFailure : public testing::Test {
 protected:
  void SetUp() override {
    create(path_);
    file_ = MappedFile::open(path_, Access::read_write);
    disk_ = content_of(path_);
    on_msync = [this](MsyncCall call) {
      calls_.push_back(call);
      std::memcpy(disk_.data() + (call.first - mapping()), call.first,
                  std::min(call.second, left(call.first)));
      return 0;
    };
  }
  void TearDown() override { on_msync = nullptr; }

  [[nodiscard]] std::byte* mapping() const { return file_->data() - file_->data_offset(); }
  [[nodiscard]] std::size_t left(const std::byte* from) const {
    return disk_.size() - static_cast<std::size_t>(from - mapping());
  }
  /// The content after a restart: each sector as last synced, or as it is now.
  [[nodiscard]] std::string after_failure(Random& random) const {
    std::string found = disk_;
    for (std::size_t sector = 0; sector < found.size(); sector += 512) {
      const auto length = std::min<std::size_t>(512, found.size() - sector);
      if (random.below(2) == 0) std::memcpy(found.data() + sector, mapping() + sector, length);
    }
    return found;
  }

  TemporaryFolder folder_;
  std::string path_ = (folder_.path() / "table.npy").string();
  std::shared_ptr<MappedFile> file_;
  std::string disk_;
  std::vector<MsyncCall> calls_;
};

TEST_F(PowerFailure, LeavesWhatWasFlushedAndWhatWasNotWritten) {
  Random random(2);
  Expectation expectation;
  for (std::int64_t epoch = 1; epoch <= 200; ++epoch) {
    const auto write = write_of(epoch);
    expectation.begin(write);
    scatter(*file_, write, epoch);
    EXPECT_EQ(expectation.broken(after_failure(random).data() + kHeader), 0) << epoch;
    flush(*file_, write);
    expectation.done(write, epoch);
    EXPECT_EQ(expectation.broken(after_failure(random).data() + kHeader), 0) << epoch;
  }
  EXPECT_EQ(calls_.size(), 200U);
  EXPECT_GT(expectation.settled(), kRows / 2);
}

TEST_F(PowerFailure, IsKeptOutByTheRowsPagesAndNoOthers) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (const auto& [first, rows] :
       {std::pair<std::int64_t, std::int64_t>{0, 1}, {5, 1}, {7, 100}, {kRows - 1, 1}, {0, kRows}}) {
    calls_.clear();
    file_->flush(first, rows);
    ASSERT_EQ(calls_.size(), 1U);
    const auto begin = static_cast<std::size_t>(kHeader + first * kWords * 8);
    const auto end = begin + static_cast<std::size_t>(rows * kWords * 8);
    EXPECT_EQ(static_cast<std::size_t>(calls_[0].first - mapping()), begin / page * page);
    EXPECT_EQ(static_cast<std::size_t>(calls_[0].first - mapping()) + calls_[0].second, end);
  }
}

TEST_F(PowerFailure, IsAnErrorIfTheDiskReportsIt) {
  on_msync = [](MsyncCall) { return -1; };
  for (const auto& flush_it :
       {std::function<void()>([&] { file_->flush(); }), {[&] { file_->flush(3, 1); }}}) {
    EXPECT_THAT(message_of<FileError>(flush_it), AllOf(HasSubstr("'table.npy' cannot be flushed"),
                                                       HasSubstr("lost"), HasSubstr("Input/output error")));
  }
  EXPECT_THROW(create((folder_.path() / "new.npy").string()), FileError);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "new.npy")) << "what is not on the disk has no name";
}

}  // namespace
}  // namespace speedtorch

/// What a killed writer leaves of a file that it writes by a RowCache with CacheWrites::back. The file is
/// compared with a log of the writes and of the completed flushes: each row is whole, from its last flush or
/// a later write. Writers end in the middle of a chosen system call, of which a random part is done, or are
/// killed at a random moment. Rows of 800 bytes: some span two pages.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <span>
#include <thread>

#include "harness/random.h"
#include "speedtorch/error.h"
#include "speedtorch/files/mapped_file.h"
#include "speedtorch/files/row_cache.h"
#include "tests/harness/message_of.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/files/epoch_rows.h"

namespace {

/// When this process dies.
struct Death {
  std::int64_t calls = -1;  ///< of pwritev before the last one, of those counted; below 0: it lives
  int pieces = 1;           ///< only calls of at least so many rows are counted
  std::uint64_t key = 0;    ///< decides how much of the last call is done
} death;

}  // namespace

/// Replaces the C library's function in this program. The last call before death writes a part of its bytes.
extern "C" ssize_t pwritev(int fd, const iovec* pieces, int count, off_t offset) {
  if (death.calls < 0 || count < death.pieces || death.calls-- > 0)
    return ::syscall(SYS_pwritev, fd, pieces, count, offset, 0);
  std::int64_t all = 0;
  for (int k = 0; k < count; ++k) all += static_cast<std::int64_t>(pieces[k].iov_len);
  stbench::harness::Random random(death.key);
  auto left = static_cast<std::size_t>(random.below(all + 1));
  for (int k = 0; k < count && left > 0; ++k) {
    const auto part = std::min(left, pieces[k].iov_len);
    if (::pwrite(fd, pieces[k].iov_base, part, offset) != static_cast<ssize_t>(part)) ::_exit(1);
    offset += static_cast<off_t>(part);
    left -= part;
  }
  ::kill(::getpid(), SIGKILL);
  ::pause();
  return -1;
}

namespace speedtorch {
namespace {

using stbench::harness::key_of;
using stbench::harness::Permutation;
using stbench::harness::Random;
using stbench::test::content_of;
using stbench::test::message_of;
using stbench::test::TemporaryFolder;
using test::kWords;
using test::Row;
using test::row_of;
using testing::HasSubstr;

constexpr std::int64_t kRows = 2000;
constexpr std::int64_t kHeader = 4096;
constexpr std::int64_t kCacheBytes = 400 * kWords * 8;

/// The rows that an epoch writes. Every fifth epoch ends with a flush.
std::vector<std::int64_t> rows_of(std::int64_t epoch) {
  Random random(key_of(11, 0, static_cast<std::uint64_t>(epoch)));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(1 + random.below(100)));
  const Permutation anywhere(kRows, random.word());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = anywhere(static_cast<std::int64_t>(i));
  return rows;
}
bool flushes(std::int64_t epoch) { return epoch % 5 == 0; }

/// An append-only file of what the writers did: 2e before epoch e is written, 2e + 1 once it is flushed.
class Ledger {
 public:
  explicit Ledger(const std::string& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
  void add(std::int64_t entry) const {
    if (::write(file_.get(), &entry, sizeof(entry)) != sizeof(entry))
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

/// The epochs that each row may be of: its last flushed one, and each later one that wrote it.
/// @param before the epoch of each row when the entries begin
std::vector<std::vector<std::int64_t>> allowed_epochs(const std::vector<std::int64_t>& before,
                                                      std::span<const std::int64_t> entries) {
  std::vector<std::vector<std::int64_t>> allowed;
  for (const auto epoch : before) allowed.push_back({epoch});
  for (const auto entry : entries) {
    if (entry % 2 == 1) {
      for (auto& epochs : allowed) epochs = {epochs.back()};
      continue;
    }
    for (const auto row : rows_of(entry / 2)) allowed[static_cast<std::size_t>(row)].push_back(entry / 2);
  }
  return allowed;
}

/// The epoch of each row in the file; -1 for a row that is no version of itself.
std::vector<std::int64_t> epochs_in(const std::string& path) {
  const auto content = content_of(path);
  std::vector<std::int64_t> epochs;
  for (std::int64_t row = 0; row < kRows; ++row) {
    Row found{};
    const auto bytes = static_cast<std::int64_t>(sizeof(Row));
    std::memcpy(found.data(), content.data() + kHeader + row * bytes, sizeof(Row));
    epochs.push_back(found == row_of(row, found[1]) ? found[1] : -1);
  }
  return epochs;
}

void create(const std::string& path) {
  MappedFile::create(path, {kRows, kWords}, at::kLong, [](at::Tensor& array) {
    for (std::int64_t row = 0; row < kRows; ++row)
      std::memcpy(array.data_ptr<std::int64_t>() + row * kWords, row_of(row, 0).data(), sizeof(Row));
  });
}

std::unique_ptr<RowCache> open_cache(const std::string& path, CacheWrites writes = CacheWrites::back) {
  return RowCache::open(path, {.bytes = kCacheBytes, .writes = writes});
}

void scatter(RowCache& cache, std::int64_t epoch) {
  const auto rows = rows_of(epoch);
  auto values = at::empty({std::ssize(rows), kWords}, at::kLong);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(values.data_ptr<std::int64_t>() + i * kWords, row_of(rows[i], epoch).data(), sizeof(Row));
  cache.scatter(at::tensor(rows, at::kLong), values);
}

/// Writes epoch after epoch, and gathers between, so that rows that are not dirty are replaced too.
[[noreturn]] void write_for_ever(const std::string& path, const Ledger& ledger, std::int64_t epoch) {
  at::set_num_threads(1);
  const auto cache = open_cache(path);
  for (;; ++epoch) {
    ledger.add(2 * epoch);
    scatter(*cache, epoch);
    auto out = at::empty({50, kWords}, at::kLong);
    cache->gather(at::randint(0, kRows, {50}, at::kLong), out);
    if (!flushes(epoch)) continue;
    cache->flush();
    ledger.add(2 * epoch + 1);
  }
}

/// Runs `work` in a child, does `then` with its number, and waits for its end, which must be SIGKILL.
void run_until_killed(const std::function<void()>& work, const std::function<void(pid_t)>& then = {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the writer failed: %s\n", error.what());
    }
    ::_exit(1);
  }
  if (then) then(child);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself";
}

class RowCacheCrash : public testing::Test {
 protected:
  void SetUp() override { create(path_); }

  [[nodiscard]] std::int64_t next_epoch() const {
    const auto entries = ledger_.entries();
    return entries.empty() ? 1 : entries.back() / 2 + 1;
  }
  /// Lets the next writer finish what the killed one left, as its first act.
  void recover() const { open_cache(path_); }
  /// Compares the file with what the ledger allows since the last call.
  void expect_contract(int kill) {
    const auto entries = ledger_.entries();
    const auto allowed = allowed_epochs(epochs_, std::span(entries).subspan(seen_));
    epochs_ = epochs_in(path_);
    seen_ = entries.size();
    for (std::size_t row = 0; row < epochs_.size(); ++row) {
      ASSERT_NE(epochs_[row], -1) << "row " << row << " is torn after kill " << kill;
      ASSERT_NE(std::ranges::find(allowed[row], epochs_[row]), allowed[row].end())
          << "row " << row << " is of epoch " << epochs_[row] << " after kill " << kill
          << ", and was flushed in " << allowed[row].front();
      newer_ += epochs_[row] != allowed[row].front() ? 1 : 0;
      older_ += epochs_[row] != allowed[row].back() ? 1 : 0;
    }
  }

  TemporaryFolder folder_;
  std::string path_ = (folder_.path() / "table.npy").string();
  std::string journal_ = (folder_.path() / ".table.npy.journal").string();
  Ledger ledger_{(folder_.path() / "ledger").string()};
  std::vector<std::int64_t> epochs_ = std::vector<std::int64_t>(kRows, 0);
  std::size_t seen_ = 0;                ///< entries of the ledger
  std::int64_t newer_ = 0, older_ = 0;  ///< rows with a write that no flush covered, and rows that lost one
};

TEST_F(RowCacheCrash, AWriterThatDiesInTheMiddleOfAWriteLeavesWholeRows) {
  std::int64_t torn = 0, pending = 0;
  Random random(key_of(5, 0, STBENCH_KILLS));
  for (int kill = 0; kill < STBENCH_KILLS; ++kill) {
    // Most calls write one row of the table, and those of many rows the journal.
    const Death next{random.below(kill % 3 == 0 ? 6 : 1500), kill % 3 == 0 ? 20 : 1, random.word()};
    run_until_killed([&] {
      death = next;
      write_for_ever(path_, ledger_, next_epoch());
    });
    torn += std::ranges::count(epochs_in(path_), -1);
    pending += message_of<FileError>([&] { open_cache(path_, CacheWrites::none); }) != "(nothing was thrown)";
    recover();
    ASSERT_FALSE(std::filesystem::exists(journal_));
    ASSERT_NO_FATAL_FAILURE(expect_contract(kill));
  }
  std::cout << STBENCH_KILLS << " deaths in pwritev, " << pending << " with rows in the journal, " << torn
            << " torn rows before it was read, " << newer_ << " rows newer than their last flush, " << older_
            << " older than their last write\n";
  RecordProperty("kills", STBENCH_KILLS);
  EXPECT_GT(pending, 0);
  EXPECT_LT(pending, STBENCH_KILLS) << "none died while it wrote the journal";
  EXPECT_GT(torn, 0) << "no death tore a row: the journal was not needed";
  EXPECT_GT(newer_, 0);
  EXPECT_GT(older_, 0);
}

TEST_F(RowCacheCrash, AKilledWriterLeavesWholeRows) {
  Random random(key_of(3, static_cast<std::uint64_t>(::getpid()), 0));
  for (int kill = 0; kill < STBENCH_KILLS; ++kill) {
    const auto before = std::ssize(ledger_.entries());
    run_until_killed(
        [&] { write_for_ever(path_, ledger_, next_epoch()); },
        [&](pid_t child) {
          const auto wanted = before + 1 + random.below(60);
          while (std::ssize(ledger_.entries()) < wanted && ::waitpid(child, nullptr, WNOHANG) == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(200));
          std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
          ::kill(child, SIGKILL);
        });
    recover();
    ASSERT_NO_FATAL_FAILURE(expect_contract(kill));
  }
}

TEST_F(RowCacheCrash, ARecoveryThatDiesIsFinishedByTheNext) {
  run_until_killed([&] {
    at::set_num_threads(1);
    const auto cache = open_cache(path_);
    ledger_.add(2);
    scatter(*cache, 1);
    death = {.calls = 3, .key = 9};  // two headers and the journal's rows, then the table
    cache->flush();
  });
  EXPECT_TRUE(std::filesystem::exists(journal_));
  for (int attempt = 0; attempt < 3; ++attempt) {
    run_until_killed([&] {
      at::set_num_threads(1);
      death = {.calls = attempt, .key = static_cast<std::uint64_t>(20 + attempt)};
      recover();
    });
  }
  recover();
  ASSERT_NO_FATAL_FAILURE(expect_contract(0));
  for (const auto row : rows_of(1)) EXPECT_EQ(epochs_[static_cast<std::size_t>(row)], 1) << row;
}

TEST_F(RowCacheCrash, AReaderIsToldOfRowsInAJournal) {
  run_until_killed([&] {
    at::set_num_threads(1);
    const auto cache = open_cache(path_);
    scatter(*cache, 1);
    death = {.calls = 3, .key = 9};
    cache->flush();
  });
  EXPECT_THAT(message_of<FileError>([&] { open_cache(path_, CacheWrites::none); }),
              testing::AllOf(HasSubstr("'table.npy'"), HasSubstr("writes = through or back once")));
  open_cache(path_, CacheWrites::through);
  EXPECT_FALSE(std::filesystem::exists(journal_));
  open_cache(path_, CacheWrites::none);
}

}  // namespace
}  // namespace speedtorch

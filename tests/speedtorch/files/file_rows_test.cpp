#include "speedtorch/files/file_rows.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/system/mapping.h"
#include "speedtorch/system/pages.h"
#include "tests/address_sanitizer.h"

namespace speedtorch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A byte of any test's file as a function of its position, so that no content need be stored.
std::byte byte_at(std::int64_t position) {
  auto x = static_cast<std::uint64_t>(position) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::byte>((x ^ (x >> 29)) >> 7);
}

/// An empty unnamed file on a disk.
Descriptor empty_file() {
  const int fd = ::open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  EXPECT_GE(fd, 0) << std::strerror(errno);
  return Descriptor(fd);
}

void write_bytes(int fd, std::int64_t begin, std::int64_t end) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(end - begin));
  for (auto at = begin; at < end; ++at) bytes[static_cast<std::size_t>(at - begin)] = byte_at(at);
  ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), begin), std::ssize(bytes));
}

/// Evicts the file's pages. Waits for the disk first, because dirty pages stay. On a busy machine, pages that
/// another processor is adding to the cache survive a first attempt.
void make_cold(int fd) {
  struct stat file {};
  ASSERT_EQ(::fstat(fd, &file), 0);
  if (file.st_size == 0) return;
  ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);  // then the kernel reads nothing ahead
  const FileMapping mapping(fd, 0, file.st_size, PROT_READ);
  for (int attempt = 0; attempt < 200; ++attempt) {
    ASSERT_EQ(::fdatasync(fd), 0);
    ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    if (resident_fraction(mapping.data(), file.st_size) == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// The number of rows of `out` that differ from the file's, compared byte by byte.
std::int64_t wrong_rows(const FileTable& table, const at::Tensor& index, const at::Tensor& out) {
  const auto rows = index.to(at::kLong);
  const auto* bytes = static_cast<const std::byte*>(out.const_data_ptr());
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    const auto begin = table.offset + rows.const_data_ptr<std::int64_t>()[i] * table.row_bytes;
    for (std::int64_t k = 0; k < table.row_bytes; ++k) {
      if (bytes[i * table.row_bytes + k] == byte_at(begin + k)) continue;
      ++wrong;
      break;
    }
  }
  return wrong;
}

at::Tensor poisoned(std::int64_t count, std::int64_t row_bytes) {
  return at::full({count, row_bytes}, 0xA5, at::kByte);
}

struct Way {
  const char* name;
  FileRowsOptions options;
  bool cold;
};

std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

/// True if the engine is available; only io_uring can be missing.
bool is_here(FileEngine engine) {
  std::string why;
  return engine != FileEngine::io_uring || make_ring_reader(1, why) != nullptr;
}

class FileRowsOfEveryWay : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (!is_here(GetParam().options.engine)) GTEST_SKIP() << "no io_uring in this program or system";
  }

  /// Gathers and compares with the function that wrote the file. Cold rows must have been read.
  void expect_rows(const FileTable& table, const at::Tensor& index) {
    const bool cold = GetParam().cold && index.numel() > 0;
    if (cold) make_cold(table.fd);
    FileRows rows(table, GetParam().options);
    auto out = poisoned(index.numel(), table.row_bytes);
    rows.gather(index, out);
    EXPECT_EQ(wrong_rows(table, index, out), 0) << table.row_bytes << " B from " << table.offset;
    if (!cold) return;
    EXPECT_TRUE(!rows.last().copied && rows.last().reads > 0)
        << "what was cold has been copied: " << table.rows << " rows of " << table.row_bytes << " B from "
        << table.offset;
  }
};

TEST_P(FileRowsOfEveryWay, BringsRowsOfEveryWidthFromAnyOffset) {
  for (const std::int64_t width : {1, 3, 64, 512, 516, 4096, 5000, 40'000}) {
    for (const std::int64_t offset : {0, 128, 4097}) {
      const std::int64_t count = std::min<std::int64_t>(300, 400'000 / width);
      const auto file = empty_file();
      write_bytes(file.get(), 0, offset + count * width);
      const FileTable table{file.get(), offset, count, width};
      expect_rows(table, at::randint(0, count, {2 * count}, at::kLong));
      expect_rows(table, at::randperm(count, at::kInt));
    }
  }
}

TEST_P(FileRowsOfEveryWay, BringsNeighboursDuplicatesAndEndsInAnyOrder) {
  constexpr std::int64_t count = 5000, width = 96;
  const auto file = empty_file();
  write_bytes(file.get(), 0, 40 + count * width);
  const FileTable table{file.get(), 40, count, width};
  expect_rows(table, at::arange(count, at::kLong));
  expect_rows(table, at::arange(count, at::kLong).flip(0).contiguous());
  expect_rows(table, at::full({1000}, 4999, at::kInt));
  expect_rows(table, at::tensor({4999, 0, 4999, 2500, 0, 1}, at::kLong));
  expect_rows(table, at::empty({0}, at::kLong));
  expect_rows(table, at::tensor({7}, at::kInt));
}

TEST_P(FileRowsOfEveryWay, ReachesBeyondFourGiBOfASparseFile) {
  constexpr std::int64_t width = 512, offset = 128;
  constexpr std::int64_t count = (std::int64_t{1} << 33) / width;  // 8 GiB
  const auto file = empty_file();
  ASSERT_EQ(::ftruncate(file.get(), offset + count * width), 0);
  const std::vector<std::int64_t> named{count - 1, (std::int64_t{1} << 31) / width,
                                        (std::int64_t{1} << 32) / width, (std::int64_t{1} << 32) / width - 1,
                                        0};
  for (const auto row : named) write_bytes(file.get(), offset + row * width, offset + (row + 1) * width);
  expect_rows({file.get(), offset, count, width}, at::tensor(named, at::kLong));
}

TEST_P(FileRowsOfEveryWay, ABadIndexIsNamedAndNothingIsWritten) {
  const auto file = empty_file();
  write_bytes(file.get(), 0, 1000 * 64);
  FileRows rows({file.get(), 0, 1000, 64}, GetParam().options);
  for (const std::int64_t bad : {-1, 1000}) {
    auto index = at::randint(0, 1000, {200}, at::kLong);
    index[137] = bad;
    auto out = poisoned(200, 64);
    try {
      rows.gather(index, out);
      ADD_FAILURE() << "no error for " << bad;
    } catch (const IndexError& error) {
      EXPECT_EQ(error.position(), 137);
      EXPECT_EQ(error.index(), bad);
      EXPECT_EQ(error.rows(), 1000);
    }
    EXPECT_TRUE(at::equal(out, poisoned(200, 64)));
  }
}

TEST_P(FileRowsOfEveryWay, AShrunkFileIsAnErrorAndAGrownOneIsNot) {
  const auto file = empty_file();
  write_bytes(file.get(), 0, 1000 * 64);
  FileRows rows({file.get(), 0, 1000, 64}, GetParam().options);
  auto out = poisoned(4, 64);
  const auto index = at::tensor({1, 2, 3, 999}, at::kLong);
  ASSERT_EQ(::ftruncate(file.get(), 1000 * 64 - 1), 0);
  EXPECT_THAT([&] { rows.gather(index, out); },
              ThrowsMessage<FileError>(AllOf(HasSubstr("63999"), HasSubstr("64000"), HasSubstr("shrunk"))));
  EXPECT_TRUE(at::equal(out, poisoned(4, 64)));
  write_bytes(file.get(), 0, 2000 * 64);
  rows.gather(index, out);
  EXPECT_EQ(wrong_rows({file.get(), 0, 1000, 64}, index, out), 0);
}

TEST_P(FileRowsOfEveryWay, OutlivesTheDescriptorThatItWasGiven) {
  std::unique_ptr<FileRows> rows;
  {
    const auto file = empty_file();
    write_bytes(file.get(), 0, 100 * 64);
    rows = std::make_unique<FileRows>(FileTable{file.get(), 0, 100, 64}, GetParam().options);
  }
  const auto index = at::arange(99, -1, -1, at::kInt);
  auto out = poisoned(100, 64);
  rows->gather(index, out);
  EXPECT_EQ(wrong_rows({-1, 0, 100, 64}, index, out), 0);
}

TEST_P(FileRowsOfEveryWay, ServesManyBatchesFromThreadsThatTakeTurns) {
  constexpr std::int64_t count = 4000, width = 200;
  const auto file = empty_file();
  write_bytes(file.get(), 0, count * width);
  const FileTable table{file.get(), 0, count, width};
  FileRows rows(table, GetParam().options);
  for (int turn = 0; turn < 6; ++turn) {
    if (GetParam().cold) make_cold(file.get());
    std::thread([&] {
      const auto index = at::randint(0, count, {1500}, at::kLong);
      auto out = poisoned(1500, width);
      rows.gather(index, out);
      EXPECT_EQ(wrong_rows(table, index, out), 0);
    }).join();
  }
}

TEST_P(FileRowsOfEveryWay, BringsTheSameOnOneThread) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto file = empty_file();
  write_bytes(file.get(), 0, 3000 * 700);
  expect_rows({file.get(), 0, 3000, 700}, at::randint(0, 3000, {2000}, at::kInt));
  at::set_num_threads(threads);
}

INSTANTIATE_TEST_SUITE_P(Ways, FileRowsOfEveryWay,
                         testing::Values(Way{"automatic_warm", {}, false}, Way{"automatic_cold", {}, true},
                                         Way{"ring_cold", {FileEngine::io_uring, 256, true}, true},
                                         Way{"ring_warm", {FileEngine::io_uring, 256, false}, false},
                                         Way{"ring_one_at_a_time", {FileEngine::io_uring, 1, false}, false},
                                         Way{"advice_cold", {FileEngine::advice, 256, true}, true},
                                         Way{"advice_warm", {FileEngine::advice, 256, false}, false},
                                         Way{"advice_one_at_a_time", {FileEngine::advice, 1, false}, true}),
                         [](const auto& way) { return std::string(way.param.name); });

TEST(FileRowsTest, WarmRowsAreCopiedAndColdOnesRead) {
  constexpr std::int64_t count = 20'000, width = 512;
  const auto file = empty_file();
  write_bytes(file.get(), 0, count * width);
  FileRows rows({file.get(), 0, count, width});
  const auto index = at::randperm(count, at::kLong).slice(0, 0, 500).contiguous();
  auto out = poisoned(500, width);
  rows.gather(index, out);
  EXPECT_TRUE(rows.last().copied);
  // The mapping keeps what it has touched resident, so the cold reader is another object with an untouched
  // mapping.
  const auto other = empty_file();
  write_bytes(other.get(), 0, count * width);
  FileRows cold({other.get(), 0, count, width});
  make_cold(other.get());
  cold.gather(index, out);
  EXPECT_FALSE(cold.last().copied);
  cold.gather(index, out);  // the reads have left their pages resident
  EXPECT_TRUE(cold.last().copied);
}

/// Asking for a page's residency must not fetch it, as a read does even if it need not wait.
TEST(FileRowsTest, RowsAskedForOneByOneAreReadOnceEach) {
  constexpr std::int64_t count = 2000, width = 4096;
  const auto file = empty_file();
  write_bytes(file.get(), 0, count * width);
  FileRows rows({file.get(), 0, count, width});
  make_cold(file.get());
  auto out = poisoned(1, width);
  for (std::int64_t row = 0; row < count; row += 10) {
    const auto index = at::tensor({row}, at::kLong);
    rows.gather(index, out);
    EXPECT_FALSE(rows.last().copied) << row;
    EXPECT_EQ(wrong_rows({-1, 0, count, width}, index, out), 0) << row;
  }
}

/// mincore says nothing about the pages of another owner's file.
TEST(FileRowsTest, BringsRowsOfAnotherOwnersFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives a file away";
  constexpr std::int64_t count = 20'000, width = 512;
  const auto file = empty_file();
  write_bytes(file.get(), 0, count * width);
  if (::fchown(file.get(), 65534, 65534) != 0)
    GTEST_SKIP() << "no file can be given away: " << std::strerror(errno);
  FileRows rows({file.get(), 0, count, width});
  const auto index = at::randperm(count, at::kLong).slice(0, 0, 500).contiguous();
  for (const bool cold : {false, true}) {
    if (cold) make_cold(file.get());
    auto out = poisoned(500, width);
    rows.gather(index, out);
    EXPECT_EQ(wrong_rows({-1, 0, count, width}, index, out), 0);
    if (!cold) {
      EXPECT_TRUE(rows.last().copied);
    }
  }
}

TEST(FileRowsTest, SeesWhatWasWrittenThroughAMapping) {
  const auto file = empty_file();
  write_bytes(file.get(), 0, 64 * 4096);
  void* mapping = ::mmap(nullptr, 64 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(mapping, MAP_FAILED);
  std::memset(static_cast<std::byte*>(mapping) + 5 * 4096, 0x77, 4096);
  FileRows rows({file.get(), 0, 64, 4096}, {.copy_cached = false});
  auto out = poisoned(1, 4096);
  rows.gather(at::tensor({5}, at::kLong), out);
  EXPECT_TRUE(at::equal(out, at::full({1, 4096}, 0x77, at::kByte)));
  ::munmap(mapping, 64 * 4096);
}

TEST(FileRowsTest, FillsTensorsOfAnyDtypeAndTellsAutograd) {
  const auto file = empty_file();
  write_bytes(file.get(), 0, 100 * 32);
  FileRows rows({file.get(), 0, 100, 32});
  auto out = at::empty({3, 2, 4}, at::kFloat);
  const auto version = out._version();
  const auto index = at::tensor({99, 5, 5}, at::kInt);
  rows.gather(index, out);
  EXPECT_EQ(wrong_rows({-1, 0, 100, 32}, index, out), 0);
  EXPECT_GT(out._version(), version);

  auto tracked = at::zeros({3, 2, 4}).requires_grad_();
  EXPECT_THROW(rows.gather(index, tracked), AutogradError);
  EXPECT_TRUE(at::equal(tracked, at::zeros({3, 2, 4})));
  const at::NoGradGuard unrecorded;
  rows.gather(index, tracked);
  EXPECT_TRUE(at::equal(tracked, out));
}

TEST(FileRowsTest, RefusesOperandsThatDoNotFit) {
  const auto file = empty_file();
  write_bytes(file.get(), 0, 100 * 32);
  const auto make = [&](FileTable table, FileRowsOptions options = {}) {
    return [=] { FileRows rows(table, options); };
  };
  const int fd = file.get();
  EXPECT_THAT(make({fd, 0, 101, 32}), ThrowsMessage<FileError>(AllOf(HasSubstr("3200"), HasSubstr("3232"))));
  EXPECT_THAT(make({fd, -1, 10, 32}), ThrowsMessage<ShapeError>(HasSubstr("from byte -1")));
  EXPECT_THAT(make({fd, 0, std::int64_t{1} << 62, 32}),
              ThrowsMessage<ShapeError>(HasSubstr("rows of 32 bytes")));
  EXPECT_THAT(make({fd, 0, 10, -1}), ThrowsMessage<ShapeError>(HasSubstr("rows of -1 bytes")));
  EXPECT_THAT(make({-1, 0, 10, 32}), ThrowsMessage<FileError>(HasSubstr("descriptor -1")));
  EXPECT_THAT(make({fd, 0, 10, 32}, {.depth = 0}), ThrowsMessage<ShapeError>(HasSubstr("a depth of 0")));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_THAT(make({ends[0], 0, 10, 32}), ThrowsMessage<FileError>(HasSubstr("not a regular file")));
  ::close(ends[0]), ::close(ends[1]);

  FileRows rows({fd, 0, 100, 32});
  const auto index = at::tensor({1, 2}, at::kLong);
  for (auto out : {poisoned(3, 32), poisoned(2, 31), poisoned(2, 64).slice(1, 0, 32)})
    EXPECT_THROW(rows.gather(index, out), ShapeError);
  auto out = poisoned(2, 32);
  EXPECT_THROW(rows.gather(index.to(at::kFloat), out), ShapeError);
  const auto inside = out.view(at::kLong)[1].slice(0, 0, 2);
  EXPECT_THAT([&] { rows.gather(inside, out); },
              ThrowsMessage<ShapeError>(HasSubstr("the index and out overlap")));
  EXPECT_THROW(rows.gather(at::arange(4, at::kLong).slice(0, 0, 4, 2), out), ShapeError);
  EXPECT_TRUE(at::equal(out, poisoned(2, 32)));
}

/// The read fails because the descriptor is write-only, which fstat allows.
TEST(FileRowsTest, AFailedReadIsAnErrorWithTheSystemsMessage) {
  const auto file = empty_file();
  write_bytes(file.get(), 0, 1000 * 512);
  const auto path = "/proc/self/fd/" + std::to_string(file.get());
  const Descriptor write_only(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_GE(write_only.get(), 0);
  for (const auto engine : {FileEngine::automatic, FileEngine::advice}) {
    FileRows rows({write_only.get(), 0, 1000, 512}, {.engine = engine});
    auto out = poisoned(300, 512);
    const auto index = at::randperm(1000, at::kLong).slice(0, 0, 300).contiguous();
    for (int again = 0; again < 2; ++again) {
      EXPECT_THAT([&] { rows.gather(index, out); },
                  ThrowsMessage<FileError>(HasSubstr(std::strerror(EBADF))));
    }
  }
}

/// The file is shrunk after the check, so that it ends in the middle of a plan.
TEST(FileReadsTest, AReadBeyondTheEndIsAnErrorAndTheReaderGoesOn) {
  const auto file = empty_file();
  write_bytes(file.get(), 0, 1000 * 512 - 7);
  const FileTable table{file.get(), 0, 1000, 512};
  std::vector<std::int64_t> index;
  for (std::int64_t row = 0; row < 990; row += 9) index.push_back(row);
  index.push_back(999);
  const auto plan = plan_reads(index.data(), std::ssize(index), table);
  const auto without = plan_reads(index.data(), std::ssize(index) - 1, table);
  std::vector<std::byte> out(index.size() * 512);
  std::string why;
  for (const auto& reader : {make_ring_reader(16, why), make_advice_reader(16)}) {
    if (!reader) continue;
    EXPECT_THAT(
        [&] {
          reader->read({table, &plan, out.data()});
        },
        ThrowsMessage<FileError>(HasSubstr("it ends before")));
    reader->read({table, &without, out.data()});
    EXPECT_EQ(out[512], byte_at(9 * 512));
  }
}

/// Checks that every entry is in exactly one read that contains its row, and each row in one read only.
TEST(FileReadsTest, APlanReadsEachRowOnceAndNoMorePagesThanItsRowsHave) {
  std::mt19937_64 random(7);
  for (const std::int64_t width : {1, 60, 512, 4096, 5000, 20'000, 70'000}) {
    const FileTable table{-1, 136, 3000, width};
    for (const int count : {1, 50, 4000}) {
      std::vector<std::int32_t> index(static_cast<std::size_t>(count));
      for (auto& row : index) row = static_cast<std::int32_t>(random() % 3000);
      const auto plan = plan_reads(index.data(), count, table);
      std::vector<int> seen(static_cast<std::size_t>(count));
      std::int64_t next = 0, end = -1;
      for (const auto& read : plan.reads) {
        EXPECT_EQ(read.first, next);
        EXPECT_GE(read.offset, end);
        EXPECT_TRUE(read.bytes == width || read.bytes <= most_joined_bytes);
        next = read.last, end = read.offset + read.bytes;
        std::int64_t page = read.offset / 4096;
        for (auto k = read.first; k < read.last; ++k) {
          const auto& [row, position] = plan.named[static_cast<std::size_t>(k)];
          ++seen[static_cast<std::size_t>(position)];
          EXPECT_EQ(index[static_cast<std::size_t>(position)], row);
          const auto begin = 136 + row * width;
          EXPECT_GE(begin, read.offset);
          EXPECT_LE(begin + width, end);
          EXPECT_LE(begin / 4096, page + 1);  // no page in between that no row needs
          page = (begin + width - 1) / 4096;
        }
      }
      EXPECT_EQ(next, count);
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), count);
    }
  }
}

TEST(FileReadsTest, NeighboursShareAReadAndOthersDoNot) {
  const FileTable table{-1, 0, 1000, 512};
  const auto reads = [&](std::vector<std::int64_t> index) {
    return plan_reads(index.data(), std::ssize(index), table).reads.size();
  };
  EXPECT_EQ(reads({0, 7}), 1U);     // the same page
  EXPECT_EQ(reads({0, 15}), 1U);    // the next page
  EXPECT_EQ(reads({0, 16}), 2U);    // the page after that
  EXPECT_EQ(reads({3, 3, 3}), 1U);  // one row
  EXPECT_EQ(reads({0, 16, 0, 16}), 2U);
  std::vector<std::int64_t> all(1000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  EXPECT_EQ(reads(all), (1000U * 512 + most_joined_bytes - 1) / most_joined_bytes);
}

/// Forbids this process a system call for good, as container runtimes do: it fails with EPERM.
void take_away(std::uint32_t system_call) {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, system_call, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(filter), filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    std::_Exit(3);
}

/// In a child process without io_uring.
void gather_without_io_uring(int fd) {
  take_away(SYS_io_uring_setup);
  at::set_num_threads(1);  // the pool's threads were not forked
  const FileTable table{fd, 0, 1000, 512};
  FileRows rows(table, {.copy_cached = false});
  const auto index = at::randint(0, 1000, {200}, at::kLong);
  auto out = poisoned(200, 512);
  rows.gather(index, out);
  const bool right = rows.engine() == FileEngine::advice && wrong_rows(table, index, out) == 0;
  std::fprintf(stderr, "%s\n", rows.why_not_ring().c_str());
  try {
    FileRows forced(table, {.engine = FileEngine::io_uring});
  } catch (const FileError&) {
    std::_Exit(right ? 0 : 1);
  }
  std::_Exit(2);
}

/// In a child process that cannot query residency.
void gather_without_mincore(int fd) {
  take_away(SYS_mincore);
  const FileTable table{fd, 0, 1000, 512};
  FileRows rows(table);
  const auto index = at::arange(200, at::kLong);
  auto out = poisoned(200, 512);
  rows.gather(index, out);
  std::_Exit(wrong_rows(table, index, out) == 0 ? 0 : 1);
}

TEST(FileRowsDeathTest, ReadsWhereTheSystemDoesNotSayWhatIsInMemory) {
  if (stbench::test::under_address_sanitizer())
    GTEST_SKIP() << "the sanitizer's own system calls do not pass a filter";
  const auto file = empty_file();
  write_bytes(file.get(), 0, 1000 * 512);
  EXPECT_EXIT(gather_without_mincore(file.get()), testing::ExitedWithCode(0), "");
}

TEST(FileRows, RowsOfNoBytesAreGatheredAndChecked) {
  const auto file = empty_file();
  FileRows rows({file.get(), 0, 5, 0});
  auto none = at::empty({0, 0}), two = at::empty({2, 0});
  rows.gather(at::empty({0}, at::kLong), none);
  rows.gather(at::tensor({4, 1}, at::kLong), two);
  EXPECT_THROW(rows.gather(at::tensor({5, 1}, at::kLong), two), IndexError);
}

TEST(FileRowsDeathTest, FallsBackWhereTheSystemRefusesIoUring) {
  if (stbench::test::under_address_sanitizer()) {
    GTEST_SKIP() << "the sanitizer's own system calls do not pass a filter";
  }
  std::string why;
  if (!make_ring_reader(1, why)) GTEST_SKIP() << why;
  const auto file = empty_file();
  write_bytes(file.get(), 0, 1000 * 512);
  EXPECT_EXIT(gather_without_io_uring(file.get()), testing::ExitedWithCode(0),
              "refuses io_uring: Operation not permitted");
}

}  // namespace
}  // namespace speedtorch

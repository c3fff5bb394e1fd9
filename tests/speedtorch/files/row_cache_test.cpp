#include "speedtorch/files/row_cache.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "harness/distribution.h"
#include "harness/random.h"
#include "speedtorch/error.h"
#include "tests/harness/message_of.h"
#include "tests/speedtorch/in_child.h"

namespace speedtorch {
namespace {

using stbench::harness::Distribution;
using stbench::harness::IndexSource;
using stbench::harness::mix;
using stbench::harness::Random;
using stbench::test::message_of;
using testing::AllOf;
using testing::HasSubstr;

/// The content of a row. Another version of it differs in each byte.
void fill_row(std::byte* to, std::int64_t row, std::int64_t row_bytes, int version) {
  for (std::int64_t k = 0; k < row_bytes; ++k) {
    const auto hash = mix(static_cast<std::uint64_t>(row) << 20 | static_cast<std::uint64_t>(k));
    to[k] = static_cast<std::byte>(hash + static_cast<std::uint64_t>(version));
  }
}

/// A table in an unnamed file on a disk.
class TableFile {
 public:
  TableFile(std::int64_t rows, std::int64_t row_bytes, std::int64_t offset = 0)
      : file_(::open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)),
        table_{file_.get(), offset, rows, row_bytes} {
    write_all(0);
  }
  void write_all(int version) const {
    const auto [fd, offset, rows, row_bytes] = table_;
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows * row_bytes));
    for (std::int64_t row = 0; row < rows; ++row)
      fill_row(bytes.data() + row * row_bytes, row, row_bytes, version);
    ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), offset), std::ssize(bytes));
  }
  [[nodiscard]] const FileTable& table() const { return table_; }
  [[nodiscard]] std::int64_t bytes() const { return table_.rows * table_.row_bytes; }

 private:
  Descriptor file_;
  FileTable table_;
};

/// The number of rows of `out` that are not those of the index in that version.
std::int64_t wrong_rows(const at::Tensor& index, const at::Tensor& out, int version = 0) {
  const auto rows = index.to(at::kLong);
  const auto row_bytes = static_cast<std::int64_t>(out.nbytes()) / std::max<std::int64_t>(1, rows.numel());
  std::vector<std::byte> wanted(static_cast<std::size_t>(row_bytes));
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    fill_row(wanted.data(), rows.const_data_ptr<std::int64_t>()[i], row_bytes, version);
    const auto* found = static_cast<const std::byte*>(out.const_data_ptr()) + i * row_bytes;
    wrong += std::memcmp(found, wanted.data(), wanted.size()) == 0 ? 0 : 1;
  }
  return wrong;
}

at::Tensor gathered(RowCache& cache, const at::Tensor& index, std::int64_t row_bytes) {
  auto out = at::full({index.numel(), row_bytes}, 0xA5, at::kByte);
  cache.gather(index, out);
  return out;
}

at::Tensor zipf_index(std::int64_t rows, std::int64_t count, int set) {
  return at::tensor(IndexSource({Distribution::Kind::zipf, 1.05, {}}).draw(rows, count, 9, set), at::kLong);
}

TEST(RowCache, BringsRowsOfEveryWidthFromAnyOffset) {
  for (const std::int64_t width : {1, 3, 64, 256, 516, 4096, 40'000}) {
    for (const std::int64_t offset : {0, 4097}) {
      const std::int64_t rows = std::min<std::int64_t>(2000, 2'000'000 / width);
      const TableFile file(rows, width, offset);
      RowCache cache(file.table(), {.bytes = 20'000 + 50 * width});
      for (int batch = 0; batch < 4; ++batch) {
        const auto index = zipf_index(rows, 700, batch);
        EXPECT_EQ(wrong_rows(index, gathered(cache, index, width)), 0) << width << " B from " << offset;
        const auto narrow = at::randint(0, rows, {100}, at::kInt);
        EXPECT_EQ(wrong_rows(narrow, gathered(cache, narrow, width)), 0) << width << " B from " << offset;
      }
      const auto seen = cache.statistics();
      EXPECT_EQ(seen.hits + seen.misses, 3200);
      EXPECT_GT(seen.hits, 0);
      EXPECT_GT(seen.reads, 0);
      EXPECT_LE(seen.reads, seen.misses);
    }
  }
}

TEST(RowCache, IsRightInLargeBatchesThatEvict) {
  const TableFile file(40'000, 64);
  RowCache cache(file.table(), {.bytes = 100'000});
  for (int batch = 0; batch < 10; ++batch) {
    const auto index = zipf_index(40'000, 30'000, batch);
    ASSERT_EQ(wrong_rows(index, gathered(cache, index, 64)), 0);
  }
  const auto seen = cache.statistics();
  EXPECT_GT(seen.evictions, 500);
  EXPECT_GT(seen.hit_rate(), 0.4);
  EXPECT_LT(seen.hit_rate(), 1);
  EXPECT_DOUBLE_EQ(seen.hit_rate(), static_cast<double>(seen.hits) / 300'000);
}

TEST(RowCache, ReturnsTheRowsThatItHolds) {
  const TableFile file(1000, 256);
  RowCache cache(file.table(), {.bytes = 1'000'000});
  const auto index = at::arange(1000, at::kLong);
  EXPECT_EQ(wrong_rows(index, gathered(cache, index, 256)), 0);
  const auto before = cache.statistics();
  EXPECT_EQ(before.misses, 1000);
  EXPECT_EQ(before.hit_rate(), 0);
  file.write_all(1);
  const auto again = gathered(cache, index, 256);
  const auto hits = cache.statistics().hits;
  EXPECT_GT(hits, 990) << "a thousand rows fit, unless their set is full";
  EXPECT_EQ(wrong_rows(index, again, 0), 1000 - hits);
  EXPECT_EQ(wrong_rows(index, again, 1), hits);
}

TEST(RowCache, HoldsRowsOf256BytesInItsBytesAndAFewForEach) {
  const TableFile file(100'000, 256);
  for (const std::int64_t bytes : {100'000, 1'000'000, 3'000'001}) {
    const RowCache cache(file.table(), {.bytes = bytes});
    const auto seen = cache.statistics();
    EXPECT_LE(seen.bytes, bytes);
    EXPECT_GT(seen.slots * 256, bytes * 94 / 100) << "rows in " << bytes << " bytes";
    EXPECT_LE(seen.slots * 256, seen.bytes);
  }
  const RowCache roomy(file.table(), {.bytes = std::int64_t{1} << 40});
  EXPECT_LT(roomy.statistics().bytes, 4 * file.bytes()) << "no more than the table can use";
}

TEST(RowCache, CountsALookUpOfARowTwiceAndReadsItOnce) {
  const TableFile file(100, 64);
  RowCache cache(file.table(), {.bytes = 100'000});
  const auto index = at::tensor({7, 7, 8, 7}, at::kLong);
  EXPECT_EQ(wrong_rows(index, gathered(cache, index, 64)), 0);
  EXPECT_EQ(cache.statistics().misses, 4);
  EXPECT_EQ(cache.statistics().reads, 2);
  EXPECT_EQ(wrong_rows(index, gathered(cache, index, 64)), 0);
  EXPECT_EQ(cache.statistics().hits, 4);
}

TEST(RowCache, TakesAnEmptyIndexAndAnyDtype) {
  const TableFile file(100, 64);
  RowCache cache(file.table(), {.bytes = 100'000});
  EXPECT_EQ(gathered(cache, at::empty({0}, at::kLong), 64).numel(), 0);
  const auto index = at::tensor({99, 0}, at::kInt);
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kFloat8_e4m3fn, at::kLong}) {
    auto out = at::empty({2, 64 / static_cast<std::int64_t>(c10::elementSize(dtype))}, dtype);
    cache.gather(index, out);
    EXPECT_EQ(wrong_rows(index, out), 0) << dtype;
  }
}

TEST(RowCache, TakesWhatWasPrefetched) {
  const TableFile file(10'000, 256);
  RowCache cache(file.table(), {.bytes = 200'000});
  const auto first = at::arange(0, 5000, at::kLong), second = at::arange(4000, 9000, at::kLong);
  cache.prefetch(first);
  EXPECT_EQ(wrong_rows(first, gathered(cache, first, 256)), 0);
  EXPECT_EQ(cache.statistics().prefetched, 5000);
  EXPECT_EQ(cache.statistics().reads, 5000) << "the gather has read none again";
  cache.prefetch(first);
  cache.prefetch(second);  // replaces it
  EXPECT_EQ(wrong_rows(second, gathered(cache, second, 256)), 0);
  EXPECT_EQ(cache.statistics().prefetched, cache.statistics().misses) << "all missed rows";
  cache.prefetch(first);
  EXPECT_EQ(wrong_rows(second, gathered(cache, second, 256)), 0) << "other rows than were prefetched";
  EXPECT_LT(cache.statistics().prefetched, cache.statistics().misses);
  cache.prefetch(second);  // the destructor does not wait for a gather
}

TEST(RowCache, APrefetchThatFailsIsTheNextGathersError) {
  const TableFile file(10'000, 256);
  RowCache cache(file.table(), {.bytes = 200'000});
  const auto index = at::arange(10'000, at::kLong);
  ASSERT_EQ(::ftruncate(file.table().fd, 256), 0);
  cache.prefetch(index);
  EXPECT_THAT(message_of<FileError>([&] { gathered(cache, index, 256); }), HasSubstr("shrunk"));
  file.write_all(0);
  EXPECT_EQ(wrong_rows(index, gathered(cache, index, 256)), 0) << "usable again";
}

TEST(RowCache, ServesSeveralThreadsAtOnce) {
  const TableFile file(20'000, 100);
  RowCache cache(file.table(), {.bytes = 200'000});
  std::atomic<std::int64_t> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      at::set_num_threads(1);
      for (int batch = 0; batch < 15; ++batch) {
        const auto index = zipf_index(20'000, 2000, batch * 4 + thread);
        if (batch % 2 == 0) cache.prefetch(index);
        wrong += wrong_rows(index, gathered(cache, index, 100));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const auto seen = cache.statistics();
  EXPECT_EQ(seen.hits + seen.misses, 4 * 15 * 2000);
  EXPECT_GT(seen.hits, 0);
  EXPECT_GT(seen.prefetched, 0);
}

TEST(RowCache, RefusesATableOrBytesThatMakeNoCache) {
  const TableFile file(100, 64);
  EXPECT_THAT(message_of<OptionError>([&] { RowCache(file.table(), {.bytes = 800}); }),
              AllOf(HasSubstr("800 bytes is too small"), HasSubstr("64 bytes"), HasSubstr("896")));
  EXPECT_THROW(RowCache(file.table(), {}), OptionError);
  EXPECT_EQ(RowCache(file.table(), {.bytes = 896}).statistics().slots, 12);
  auto table = file.table();
  table.row_bytes = 0;
  EXPECT_THROW(RowCache(table, {.bytes = 800}), ShapeError);
  table.row_bytes = -3;
  EXPECT_THROW(RowCache(table, {.bytes = 800}), ShapeError);
  table = file.table();
  table.rows = 101;
  EXPECT_THAT(message_of<FileError>([&] { RowCache(table, {.bytes = 100'000}); }), HasSubstr("101 rows"));
  EXPECT_THROW(RowCache(file.table(), {.bytes = 100'000, .reads = {.depth = 0}}), ShapeError);
}

TEST(RowCache, RefusesBadOperandsBeforeItWrites) {
  const TableFile file(100, 64);
  RowCache cache(file.table(), {.bytes = 100'000});
  auto out = at::full({3, 64}, 0xA5, at::kByte);
  const auto before = out.clone();
  try {
    cache.gather(at::tensor({1, 2, 100}, at::kLong), out);
    ADD_FAILURE() << "no error";
  } catch (const IndexError& error) {
    EXPECT_EQ(error.position(), 2);
    EXPECT_EQ(error.index(), 100);
    EXPECT_EQ(error.rows(), 100);
  }
  EXPECT_THROW(cache.gather(at::tensor({1, 2}, at::kLong), out), ShapeError);
  EXPECT_THROW(cache.gather(at::tensor({1., 2., 3.}), out), ShapeError);
  EXPECT_THROW(cache.prefetch(at::tensor({1, -1}, at::kLong)), IndexError);
  EXPECT_THROW(cache.prefetch(at::tensor({1., 2.})), ShapeError);
  auto tracked = at::ones({3, 16}).requires_grad_();
  EXPECT_THROW(cache.gather(at::tensor({1, 2, 3}, at::kLong), tracked), AutogradError);
  EXPECT_TRUE(at::equal(out, before));
  EXPECT_EQ(cache.statistics().misses, 0);
}

TEST(RowCache, AForkedChildCannotPrefetch) {
  const TableFile file(100, 64);
  RowCache cache(file.table(), {.bytes = 100'000});
  EXPECT_THAT(test::in_child([&] {
                cache.prefetch(at::tensor({1}, at::kLong));
                return std::string("prefetched");
              }),
              HasSubstr("was forked from it"));
}

}  // namespace
}  // namespace speedtorch

#include "speedtorch/files/row_cache.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "harness/distribution.h"
#include "harness/random.h"
#include "speedtorch/error.h"
#include "speedtorch/files/mapped_file.h"
#include "tests/harness/message_of.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/in_child.h"

namespace speedtorch {
namespace {

using stbench::harness::Distribution;
using stbench::harness::IndexSource;
using stbench::harness::mix;
using stbench::harness::Random;
using stbench::test::message_of;
using stbench::test::TemporaryFolder;
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

TEST(RowCache, ServesSeveralThreadsAtOnceAfterTheCallerHasClosedTheFile) {
  auto file = std::make_unique<TableFile>(20'000, 100);
  RowCache cache(file->table(), {.bytes = 200'000});
  file.reset();
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

/// A `.npy` file of rows of bytes.
class NpyTable {
 public:
  NpyTable(std::int64_t rows, std::int64_t row_bytes) {
    MappedFile::create(path, {rows, row_bytes}, at::kByte, [&](at::Tensor& array) {
      for (std::int64_t row = 0; row < rows; ++row)
        fill_row(static_cast<std::byte*>(array.data_ptr()) + row * row_bytes, row, row_bytes, 0);
    });
  }
  /// The rows as others see them.
  [[nodiscard]] at::Tensor content() const {
    return MappedFile::open(path, Access::read_only)->array().clone();
  }
  [[nodiscard]] std::string journal() const { return (folder.path() / ".table.npy.journal").string(); }

  TemporaryFolder folder;
  std::string path = (folder.path() / "table.npy").string();
};

at::Tensor values_of(const at::Tensor& index, std::int64_t row_bytes, int version) {
  auto values = at::empty({index.numel(), row_bytes}, at::kByte);
  for (std::int64_t i = 0; i < index.numel(); ++i)
    fill_row(static_cast<std::byte*>(values.data_ptr()) + i * row_bytes, index[i].item<std::int64_t>(),
             row_bytes, version);
  return values;
}

class RowCacheThatWrites : public testing::TestWithParam<CacheWrites> {};

TEST_P(RowCacheThatWrites, HasTheLastValueOfEachRowAndSoHasTheFileAfterAFlush) {
  for (const std::int64_t width : {1, 100, 256, 5000}) {
    constexpr std::int64_t rows = 900;
    const NpyTable file(rows, width);
    auto expected = file.content();
    {
      const auto cache = RowCache::open(file.path, {.bytes = 200 * (width + 12), .writes = GetParam()});
      EXPECT_EQ(cache->shape(), at::IntArrayRef({rows, width}));
      EXPECT_EQ(cache->dtype(), at::kByte);
      for (int step = 1; step <= 30; ++step) {
        const auto written = at::randint(0, rows, {150}, step % 2 == 0 ? at::kInt : at::kLong);
        const auto values = at::randint(0, 256, {150, width}, at::kByte);
        cache->scatter(written, values);
        for (std::int64_t i = 0; i < 150; ++i) expected[written[i].item<std::int64_t>()] = values[i];
        const auto index = at::randint(0, rows, {300}, at::kLong);
        ASSERT_TRUE(at::equal(gathered(*cache, index, width), expected.index_select(0, index))) << step;
        if (step % 10 != 5 && GetParam() == CacheWrites::back) continue;
        cache->flush();
        ASSERT_TRUE(at::equal(file.content(), expected)) << step;
      }
      EXPECT_EQ(cache->statistics().written_back > 0, GetParam() == CacheWrites::back);
    }
    EXPECT_TRUE(at::equal(file.content(), expected)) << "the destructor has written the rest";
    EXPECT_FALSE(std::filesystem::exists(file.journal()));
  }
}

TEST_P(RowCacheThatWrites, GivesEachGatherWholeRowsOfTheLatestWriteOrALaterOne) {
  constexpr std::int64_t rows = 600, width = 300;
  const NpyTable file(rows, width);
  const auto cache = RowCache::open(file.path, {.bytes = 40'000, .writes = GetParam()});
  std::atomic<int> done = 0;
  std::atomic<std::int64_t> wrong = 0, gathers = 0;
  const auto all = at::arange(rows, at::kLong);
  std::vector<std::thread> readers;
  for (int thread = 0; thread < 2; ++thread) {
    readers.emplace_back([&, thread] {
      at::set_num_threads(1);
      for (int turn = thread; done < 40; ++turn) {
        const int before = done;
        if (turn % 3 == 0) cache->prefetch(all);
        const auto found = gathered(*cache, all, width);
        const int after = std::min(40, done + 1);
        // A row of version v is fill_row(v), which adds v to each byte.
        const auto first = values_of(all, width, 0);
        const auto version = (found - first).to(at::kInt);
        wrong += (version != version.select(1, 0).unsqueeze(1)).any(1).sum().item<std::int64_t>();
        wrong += ((version < before) | (version > after)).any(1).sum().item<std::int64_t>();
        ++gathers;
      }
    });
  }
  at::set_num_threads(1);
  for (int version = 1; version <= 40; ++version) {
    for (const auto& part : at::randperm(rows, at::kLong).chunk(5))
      cache->scatter(part, values_of(part, width, version));
    if (version % 7 == 0) cache->flush();
    done = version;
    const auto wanted = gathers + 1;
    while (version < 40 && gathers < wanted) std::this_thread::yield();
  }
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(wrong_rows(all, gathered(*cache, all, width), 40), 0);
}

TEST_P(RowCacheThatWrites, RefusesBadOperandsBeforeItWrites) {
  const NpyTable file(100, 64);
  const auto before = file.content();
  {
    const auto cache = RowCache::open(file.path, {.bytes = 100'000, .writes = GetParam()});
    const auto values = at::zeros({2, 64}, at::kByte);
    EXPECT_THROW(cache->scatter(at::tensor({1, 100}, at::kLong), values), IndexError);
    EXPECT_THROW(cache->scatter(at::tensor({1}, at::kLong), values), ShapeError);
    EXPECT_THROW(cache->scatter(at::tensor({1., 2.}), values), ShapeError);
    EXPECT_THROW(cache->scatter(at::tensor({1, 2}, at::kLong), values.t().contiguous().t()), ShapeError);
    EXPECT_THAT(
        message_of<FileError>([&] { RowCache::open(file.path, {.bytes = 100'000, .writes = GetParam()}); }),
        HasSubstr("another RowCache writes to it"));
    RowCache::open(file.path, {.bytes = 100'000});  // one that only reads is allowed
  }
  EXPECT_TRUE(at::equal(file.content(), before));
}

TEST_P(RowCacheThatWrites, NeverMakesAShrunkFileLonger) {
  const NpyTable file(1000, 64);
  const auto cache = RowCache::open(file.path, {.bytes = 200'000, .writes = GetParam()});
  std::filesystem::resize_file(file.path, 4096 + 500 * 64);
  const auto index = at::arange(1000, at::kLong);
  EXPECT_THAT(message_of<FileError>([&] {
                cache->scatter(index, values_of(index, 64, 1));
                cache->flush();
              }),
              AllOf(HasSubstr("'table.npy' was shrunk"), HasSubstr("68096")));
  EXPECT_EQ(std::filesystem::file_size(file.path), 4096 + 500 * 64);
  std::filesystem::resize_file(file.path, 4096 + 1000 * 64);
  if (GetParam() == CacheWrites::back) {
    cache->flush();
    EXPECT_EQ(wrong_rows(index.slice(0, 500), file.content().slice(0, 500), 1), 0)
        << "the cache still had them";
  } else {
    cache->scatter(index, values_of(index, 64, 1));
  }
  EXPECT_EQ(wrong_rows(index, gathered(*cache, index, 64), 1), 0);
}

TEST_P(RowCacheThatWrites, BeyondTheLimitOfFileSizesGetsAnErrorAndNoSignal) {
  const NpyTable file(1000, 256);
  const auto said = test::in_child([&] {
    const auto cache = RowCache::open(file.path, {.bytes = 200'000, .writes = GetParam()});
    const struct rlimit small { 4096, 4096 };
    ::setrlimit(RLIMIT_FSIZE, &small);
    const auto index = at::tensor({900}, at::kLong);
    return message_of<FileError>([&] {
      cache->scatter(index, values_of(index, 256, 1));
      cache->flush();
    });
  });
  EXPECT_THAT(said, HasSubstr("cannot be written: File too large"));
}

TEST_P(RowCacheThatWrites, TakesNumbersThatAreNotInMemory) {
  const NpyTable file(100, 8);
  const auto cache = RowCache::open(file.path, {.bytes = 10'000, .writes = GetParam()});
  const auto index = at::_neg_view(at::tensor({-7, -1}, at::kLong)), rows = at::tensor({7, 1}, at::kLong);
  const auto values = at::arange(16, at::kByte).view({2, 8});
  cache->scatter(index, at::_neg_view(values));
  cache->prefetch(index);
  EXPECT_TRUE(at::equal(gathered(*cache, index, 8), at::neg(values)));
  EXPECT_TRUE(at::equal(gathered(*cache, rows, 8), at::neg(values)));
  auto out = at::_neg_view(at::zeros({2, 8}, at::kByte));
  EXPECT_THROW(cache->gather(rows, out), LazyTensorError);
}

INSTANTIATE_TEST_SUITE_P(Ways, RowCacheThatWrites, testing::Values(CacheWrites::through, CacheWrites::back),
                         [](const auto& way) {
                           return std::string(way.param == CacheWrites::back ? "Back" : "Through");
                         });

TEST(RowCache, WritesOnlyIfAskedTo) {
  const NpyTable file(100, 64);
  const auto cache = RowCache::open(file.path, {.bytes = 100'000});
  const auto index = at::tensor({1}, at::kLong);
  EXPECT_THAT(message_of<OptionError>([&] {
                cache->scatter(index, at::zeros({1, 64}, at::kByte));
              }),
              HasSubstr("writes = through or back"));
  cache->flush();
  const TableFile bare(100, 64);
  EXPECT_THROW(RowCache(bare.table(), {.bytes = 100'000, .writes = CacheWrites::through}), OptionError);
}

TEST(RowCache, OfAFileReadsItsRowsAndRefusesAScalar) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "cube.npy").string();
  const auto cube = at::randn({50, 3, 4});
  MappedFile::create(path, cube.sizes(), at::kFloat, [&](at::Tensor& array) { array.copy_(cube); });
  const auto cache = RowCache::open(path, {.bytes = 10'000});
  EXPECT_EQ(cache->shape(), cube.sizes());
  EXPECT_EQ(cache->dtype(), at::kFloat);
  auto out = at::empty({2, 3, 4});
  cache->gather(at::tensor({49, 0}, at::kInt), out);
  EXPECT_TRUE(at::equal(out, cube.index_select(0, at::tensor({49, 0}, at::kInt))));
  MappedFile::create((folder.path() / "one.npy").string(), {}, at::kFloat);
  EXPECT_THAT(
      message_of<ShapeError>([&] { RowCache::open((folder.path() / "one.npy").string(), {.bytes = 9999}); }),
      HasSubstr("scalar"));
  EXPECT_THROW(RowCache::open((folder.path() / "none.npy").string(), {.bytes = 9999}), FileError);
}

TEST(RowCache, RefusesAJournalOfAnotherTable) {
  const NpyTable file(100, 64), other(100, 64);
  const auto index = at::arange(100, at::kLong);
  {
    const auto cache = RowCache::open(file.path, {.bytes = 100'000, .writes = CacheWrites::back});
    cache->scatter(index, values_of(index, 64, 1));
    std::filesystem::resize_file(file.path, 100);
    EXPECT_THROW(cache->flush(), FileError);  // the journal keeps the rows
    std::filesystem::copy_file(file.journal(), other.journal());
    std::filesystem::resize_file(file.path, 4096 + 100 * 64);
  }
  EXPECT_THAT(message_of<FileError>(
                  [&] { RowCache::open(other.path, {.bytes = 100'000, .writes = CacheWrites::through}); }),
              AllOf(HasSubstr("'.table.npy.journal'"), HasSubstr("another table")));
  EXPECT_EQ(wrong_rows(index, other.content(), 0), 0);
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

/// Files of torch's formats with every damage that a disk or a copy may cause.
#include "speedtorch/files/archive.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/error.h"
#include "speedtorch/system/system_files.h"
#include "speedtorch/tables/saved_tables.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/in_child.h"
#include "tests/speedtorch/refusal.h"

namespace speedtorch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Archives : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  /// A file of that name with one tensor, whose bytes all differ from those around them.
  [[nodiscard]] std::string saved_table() const {
    save_torch(Table::from_array(at::arange(300, at::kInt).view({100, 3}).add(0x5A5A0000)), path("table.pt"));
    return stbench::test::content_of(path("table.pt"));
  }
  stbench::test::TemporaryFolder folder_;
};

void flip(std::string& content, std::size_t begin, std::size_t bit) {
  content[begin + bit / 8] = static_cast<char>(content[begin + bit / 8] ^ (1 << bit % 8));
}

std::size_t begin_of(const at::Tensor& data, const std::string& in) {
  const auto found = in.find(std::string(static_cast<const char*>(data.const_data_ptr()), data.nbytes()));
  EXPECT_NE(found, std::string::npos);
  return found;
}

TEST_F(Archives, EachFlippedBitOfATableIsFound) {
  const auto whole = saved_table();
  const auto begin = begin_of(load_torch(path("table.pt")).tensor(), whole);
  for (std::size_t bit = 0; bit < 1200 * 8; bit += 237) {
    auto damaged = whole;
    flip(damaged, begin, bit);
    write(path("damaged.pt"), damaged);
    EXPECT_THAT(
        refusal<FileError>([&] { (void)load_torch(path("damaged.pt")); }),
        AllOf(HasSubstr("'damaged.pt'"), HasSubstr("data/0'"), HasSubstr("is damaged"), Not(HasSubstr("\n"))))
        << bit;
  }
  EXPECT_EQ(load_torch(path("table.pt")).rows(), 100);
}

class TrainedOptimizer : public Archives {
 protected:
  [[nodiscard]] static ContiguousOptimizer trained() {
    ContiguousOptimizer optimizer({at::ones({40, 3}).requires_grad_(), at::ones({7}).requires_grad_()},
                                  AdamOptions{});
    for (const auto& gradient : optimizer.parameters().buckets())
      gradient.gradient.copy_(at::arange(gradient.gradient.numel()));
    optimizer.parameters().gradients_written();
    optimizer.step();
    return optimizer;
  }
};

TEST_F(TrainedOptimizer, FindsEachFlippedBitOfAStateAndChangesNothing) {
  auto optimizer = trained();
  optimizer.save(path("adam.pt"));
  const auto whole = stbench::test::content_of(path("adam.pt"));
  const auto state = optimizer.state()[0].tensors[1].second.contiguous();
  const auto begin = begin_of(state, whole);
  for (std::size_t bit = 0; bit < state.nbytes() * 8; bit += 191) {
    auto damaged = whole;
    flip(damaged, begin, bit);
    write(path("damaged.pt"), damaged);
    EXPECT_THAT(refusal<FileError>([&] { optimizer.load(path("damaged.pt")); }),
                AllOf(HasSubstr("'damaged.pt' is no whole file"), HasSubstr("its entry '")));
    EXPECT_TRUE(at::equal(optimizer.state()[0].tensors[1].second, state));
  }
  optimizer.load(path("adam.pt"));
}

/// Overwrites, cuts off or doubles bytes anywhere: the result is a FileError or the same numbers, never
/// another error.
TEST_F(TrainedOptimizer, NeverThrowsAnUntypedError) {
  auto optimizer = trained();
  optimizer.save(path("adam.pt"));
  const auto whole = stbench::test::content_of(path("adam.pt"));
  const auto state = optimizer.state()[0].tensors[1].second.clone();
  const auto table = saved_table();
  std::mt19937 random(7);
  int refused = 0;
  for (int k = 0; k < 400; ++k) {
    auto damaged = k % 2 == 0 ? whole : table;
    const auto at = random() % damaged.size();
    const auto count = std::min<std::size_t>(damaged.size() - at, 1 + random() % 6);
    if (k % 8 < 5)
      std::generate_n(damaged.begin() + static_cast<std::ptrdiff_t>(at), count,
                      [&] { return static_cast<char>(random()); });
    if (k % 8 == 5) damaged.resize(at);
    if (k % 8 == 6) damaged.erase(at, count);
    if (k % 8 == 7) damaged.insert(at, damaged.substr(at, count));
    write(path("damaged.pt"), damaged);
    try {
      if (k % 2 == 0) {
        optimizer.load(path("damaged.pt"));
      } else {
        EXPECT_EQ(load_torch(path("damaged.pt")).tensor().sum().item<std::int64_t>(),
                  300LL * 0x5A5A0000 + 300 * 299 / 2)
            << k;
      }
    } catch (const FileError&) {
      ++refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << k << ": " << error.what();
    }
    EXPECT_TRUE(at::equal(optimizer.state()[0].tensors[1].second, state)) << k;
  }
  EXPECT_GT(refused, 200);
}

/// A directory that claims 1.7 GB for an entry, under a limit that forbids such an allocation.
TEST_F(Archives, SizesThatTheFileCannotHoldAreRefusedBeforeTheyAreAllocated) {
  auto damaged = saved_table();
  const std::string entry("PK\x01\x02");
  for (auto at = damaged.find(entry); at != std::string::npos; at = damaged.find(entry, at + 1)) {
    for (const std::size_t field : {std::size_t{20}, std::size_t{24}})
      damaged.replace(at + field, 4, std::string("\x00\x00\x00\x66", 4));
  }
  write(path("damaged.pt"), damaged);
  EXPECT_THAT(test::in_child([&] {
                const auto mapped = SystemFiles().bytes("/proc/self/status", "VmSize").value();
                const auto most = static_cast<rlim_t>(mapped) + (rlim_t{1} << 30);
                const rlimit limit{most, most};
                if (::setrlimit(RLIMIT_AS, &limit) != 0) return std::string("no limit");
                return refusal<FileError>([&] { (void)load_torch(path("damaged.pt")); });
              }),
              AllOf(HasSubstr("its entry 'archive/data.pkl'"), HasSubstr("1711276032 bytes")));
}

/// Python's own files, with checksums and without.
TEST_F(Archives, ReadsPythonsArchivesWithAndWithoutChecksums) {
  if (std::string_view(STBENCH_PYTHON).empty())
    GTEST_SKIP() << "STBENCH_PYTHON is not set (a Python with torch)";
  const auto script = folder_.write("script.py",
                                    "import torch\n"
                                    "torch.save(torch.arange(300.), 'summed.pt')\n"
                                    "torch.serialization.set_crc32_options(False)\n"
                                    "torch.save(torch.arange(300.), 'unsummed.pt')\n");
  ASSERT_EQ(std::system(("cd " + folder_.path().string() + " && " STBENCH_PYTHON " " + script).c_str()), 0);
  for (const char* name : {"summed.pt", "unsummed.pt"})
    EXPECT_TRUE(at::equal(load_torch(path(name)).tensor(), at::arange(300, at::kFloat))) << name;
  auto damaged = stbench::test::content_of(path("summed.pt"));
  const auto at = begin_of(at::arange(300, at::kFloat), damaged) + 77;
  damaged[at] = static_cast<char>(damaged[at] ^ 4);
  write(path("summed.pt"), damaged);
  EXPECT_THAT(refusal<FileError>([&] { (void)load_torch(path("summed.pt")); }),
              HasSubstr("'summed/data/0' is damaged"));
}

/// Entries of several pieces, stored and compressed, one with a comment, with sizes and offsets of 32 and of
/// 64 bits.
TEST_F(Archives, ChecksEachKindOfEntryThatPythonWrites) {
  if (std::string_view(STBENCH_PYTHON).empty()) GTEST_SKIP() << "STBENCH_PYTHON is not set";
  const auto script =
      folder_.write("script.py",
                    "import random, struct, zipfile\n"
                    "noise = random.Random(1).randbytes(2_500_000)\n"
                    "def stored():\n"
                    "    info = zipfile.ZipInfo('stored')\n"
                    "    info.extra = struct.pack('<HH3s', 0x4246, 3, b'abc')\n"
                    "    info.comment = b'c' * 300\n"
                    "    return info\n"
                    "def other_field_first(content):\n"
                    "    entry = content.index(b'PK\\x01\\x02')\n"
                    "    name, extra = struct.unpack_from('<HH', content, entry + 28)\n"
                    "    begin = entry + 46 + name\n"
                    "    fields = content[begin : begin + extra]\n"
                    "    return content[:begin] + fields[-7:] + fields[:-7] + content[begin + extra :]\n"
                    "for name, limit in ('narrow.zip', 1 << 31), ('wide.zip', 100):\n"
                    "    zipfile.ZIP64_LIMIT = limit\n"
                    "    with zipfile.ZipFile(name, 'w') as archive:\n"
                    "        archive.writestr(stored(), noise)\n"
                    "        archive.writestr('noise', noise, zipfile.ZIP_DEFLATED)\n"
                    "        archive.writestr('text', b'row ' * 300_000, zipfile.ZIP_DEFLATED)\n"
                    "    content = open(name, 'rb').read()\n"
                    "    open(name, 'wb').write(other_field_first(content))\n");
  ASSERT_EQ(std::system(("cd " + folder_.path().string() + " && " STBENCH_PYTHON " " + script).c_str()), 0);
  for (const char* name : {"narrow.zip", "wide.zip"}) {
    auto whole = stbench::test::content_of(path(name));
    if (name == std::string("wide.zip")) {
      ASSERT_NE(whole.find("PK\x06\x06"), std::string::npos);
      whole.replace(whole.rfind("PK\x05\x06") + 12, 8, 8, '\xFF');  // both numbers are in the 64-bit record
      write(path(name), whole);
    }
    check_archive(path(name), "is no whole archive");
    for (const std::size_t place : {100U, 1'100'000U, 2'400'000U, 2'600'000U, 4'900'000U}) {
      auto damaged = whole;
      flip(damaged, place, 3);
      write(path("damaged.zip"), damaged);
      EXPECT_THAT(refusal<FileError>([&] { check_archive(path("damaged.zip"), "is no whole archive"); }),
                  AllOf(HasSubstr(place < 2'500'000 ? "its entry 'stored'" : "its entry 'noise'"),
                        HasSubstr("is damaged")))
          << name << ' ' << place;
    }
  }
}

TEST_F(Archives, AnArchiveMayHaveNoEntries) {
  write(path("empty.zip"), "PK\x05\x06" + std::string(18, '\0'));
  EXPECT_NO_THROW(check_archive(path("empty.zip"), "is no whole archive"));
}

}  // namespace
}  // namespace speedtorch

#include "speedtorch/files/file_rows.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "speedtorch/error.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/memory/block.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/system/pages.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

constexpr int most_depth = 4096;
/// Rows of a batch whose residency is queried. The batch counts as cached if at most `most_cold` of them are
/// not resident. Reading everything pays from 1 cold row in 40. (Per row of 512 B: a page fault costs about
/// 35 us on two threads, a read of a cold row 7 us, a copy of a cached row 0.1 us, a read of it 0.9 us.)
constexpr std::int64_t queried_rows = 64;
constexpr std::int64_t most_cold = 1;
/// The queries that must not fetch pages. They suffice to recognise a batch that is all cold. The other query
/// is faster: with this one alone, a batch of 64 warm rows took 1.6 times as long.
constexpr std::int64_t quiet_queries = most_cold + 1;
constexpr std::int64_t check_grain = 1 << 16;

[[noreturn]] void refuse_reads(const std::string& call) {
  const std::string answer = std::strerror(errno);
  throw FileError("cannot read rows of the file: " + call + ": " + answer);
}

int duplicate(int fd) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) refuse_reads("descriptor " + std::to_string(fd));
  return copy;
}

/// mincore tells a file's owner which pages are resident. It tells other users that all are.
bool is_owned(int fd) {
  struct stat file {};
  return ::fstat(fd, &file) == 0 && file.st_uid == ::geteuid();
}

/// Asks mincore. Rows count as cold if the system does not answer.
bool is_in_memory(const std::byte* byte) {
  try {
    return resident_fraction(byte, 1) > 0;
  } catch (const MemoryError&) {
    return false;
  }
}

/// @throws ShapeError, also if the table's end does not fit into 63 bits
void check_table(const FileTable& table, const FileRowsOptions& options) {
  std::int64_t bytes = 0;
  const bool fits = table.offset >= 0 && table.rows >= 0 && table.row_bytes >= 0 &&
                    !__builtin_mul_overflow(table.rows, table.row_bytes, &bytes) &&
                    !__builtin_add_overflow(bytes, table.offset, &bytes);
  if (!fits) {
    throw ShapeError("no file has " + std::to_string(table.rows) + " rows of " +
                     std::to_string(table.row_bytes) + " bytes from byte " + std::to_string(table.offset) +
                     " on");
  }
  if (options.depth < 1 || options.depth > most_depth) {
    throw ShapeError("a depth of " + std::to_string(options.depth) + " reads is not between 1 and " +
                     std::to_string(most_depth));
  }
}

}  // namespace

void check_file_index(const at::Tensor& index) {
  if (!index.device().is_cpu())
    throw PlacementError("the index of rows of a file must be on cpu; it is on " + index.device().str());
  if ((index.scalar_type() != at::kLong && index.scalar_type() != at::kInt) || !index.is_contiguous())
    throw ShapeError("the index must be a contiguous int32 or int64 tensor");
}

void check_file_operands(const at::Tensor& index, const at::Tensor& out, std::int64_t row_bytes) {
  check_untracked(out, "out");
  check_in_memory(out, "out");
  check_writable(out, "out");
  if (!index.device().is_cpu() || !out.device().is_cpu())
    throw PlacementError("rows of a file go to tensors on cpu; the index is on " + index.device().str() +
                         ", out on " + out.device().str());
  check_file_index(index);
  const bool fits = out.is_contiguous() && out.dim() > 0 && out.size(0) == index.numel() &&
                    static_cast<std::int64_t>(out.nbytes()) == index.numel() * row_bytes;
  if (fits) {
    const auto bytes = static_cast<std::int64_t>(out.nbytes());
    return check_index_apart(index, {static_cast<const std::byte*>(out.const_data_ptr()), 1, bytes, bytes},
                             "the index and out");
  }
  throw ShapeError("out is " + layout_of(out) + "; " + std::to_string(index.numel()) +
                   " contiguous rows of " + std::to_string(row_bytes) + " bytes are needed");
}

FileRows::FileRows(const FileTable& table, const FileRowsOptions& options)
    : file_((check_table(table, options), duplicate(table.fd))),
      table_(table),
      copy_cached_(options.copy_cached) {
  table_.fd = file_.get();
  owned_ = is_owned(table_.fd);
  check_size();
  if (options.engine != FileEngine::advice) reader_ = make_ring_reader(options.depth, why_not_ring_);
  if (reader_) {
    engine_ = FileEngine::io_uring;
  } else if (options.engine == FileEngine::io_uring) {
    throw FileError("io_uring was queried for: " + why_not_ring_);
  } else {
    reader_ = make_advice_reader(options.depth);
  }
}

FileRows::~FileRows() {
  if (mapping_ != nullptr) ::munmap(mapping_, static_cast<std::size_t>(table_.end()));
}

void FileRows::check_size() const {
  struct stat found {};
  if (::fstat(table_.fd, &found) != 0) refuse_reads("fstat");
  if (!S_ISREG(found.st_mode)) throw FileError("cannot read rows: this is not a regular file");
  if (found.st_size < table_.end()) {
    throw FileError("the file has " + std::to_string(found.st_size) + " bytes, its " +
                    std::to_string(table_.rows) + " rows end at " + std::to_string(table_.end()) +
                    "; it was shrunk, or is another table's");
  }
}

/// True if a byte of the file is resident. A read with RWF_NOWAIT makes the kernel fetch the page, and a fast
/// disk delivers it before the answer, so cold rows pass for cached. `without_fetch` therefore asks mincore,
/// if the file is the caller's own.
bool FileRows::is_resident(std::int64_t offset, bool without_fetch) {
  if (without_fetch && owned_ && map_rows()) return is_in_memory(mapped_rows() - table_.offset + offset);
  std::byte byte{};
  const iovec to{&byte, 1};
  if (::preadv2(table_.fd, &to, 1, offset, RWF_NOWAIT) == 1) return true;
  if (errno != EOPNOTSUPP) return false;
  return map_rows() &&
         is_in_memory(mapped_rows() - table_.offset + offset);  // for file systems without such reads
}

/// Creates a mapping of its own, which is advised not to read ahead. Returns false, with errno, if it cannot.
bool FileRows::map_rows() {
  if (mapping_ != nullptr) return true;
  const auto bytes = static_cast<std::size_t>(table_.end());
  void* made = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, table_.fd, 0);
  if (made == MAP_FAILED) return false;
  ::madvise(made, bytes, MADV_RANDOM);
  mapping_ = made;
  return true;
}

const std::byte* FileRows::mapped_rows() {
  if (!map_rows()) refuse_reads("mmap");
  return static_cast<const std::byte*>(mapping_) + table_.offset;
}

template <class Index>
bool FileRows::mostly_cached(const Index* index, std::int64_t count) {
  const auto queried = std::min(count, queried_rows);
  std::int64_t cold = 0;
  for (std::int64_t k = 0; k < queried; ++k) {
    const auto row = static_cast<std::int64_t>(index[count * k / queried]);
    if (!is_resident(table_.offset + row * table_.row_bytes, k < quiet_queries) &&
        ++cold > most_cold * queried / queried_rows)
      return false;
  }
  return true;
}

template <class Index>
void FileRows::gather_into(const Index* index, std::int64_t count, std::byte* out) {
  kernels::check_indices(index, count, table_.rows, check_grain, parallel_for);
  if (count == 0 || table_.row_bytes == 0) return;
  check_size();
  last_ = {};
  if (copy_cached_ && mostly_cached(index, count)) {
    const auto row = table_.row_bytes;
    kernels::gather_rows({mapped_rows(), table_.rows, row, row}, index, count, {out, count, row, row},
                         parallel_for);
    last_.copied = true;
    return;
  }
  const auto plan = plan_reads(index, count, table_);
  last_.reads = std::ssize(plan.reads);
  reader_->read({table_, &plan, out});
}

void FileRows::gather(const at::Tensor& index, at::Tensor& out) {
  if (is_lazy(index)) return gather(resolved(index), out);
  check_file_operands(index, out, table_.row_bytes);
  auto* to = static_cast<std::byte*>(out.data_ptr());
  with_index(index, [&](const auto* indices) { gather_into(indices, index.numel(), to); });
  bump_version(out);
}

}  // namespace speedtorch

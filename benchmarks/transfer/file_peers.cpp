#include "benchmarks/transfer/file_peers.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "speedtorch/files/file_rows.h"
#include "speedtorch/threads.h"

#ifdef STBENCH_HAS_LIBURING
#include <liburing.h>
#endif

namespace stbench {
namespace {

constexpr std::int64_t grain = 64;  // rows

/// The row that entry i of a set names.
std::int64_t row_at(const at::Tensor& index, std::int64_t i) {
  return index.scalar_type() == at::kLong ? index.const_data_ptr<std::int64_t>()[i]
                                          : index.const_data_ptr<std::int32_t>()[i];
}

/// What a gather works on.
struct FileBatch {
  const at::Tensor& index;
  std::byte* model;
  std::int64_t count, row_bytes;

  FileBatch(Arena& arena, int set)
      : index(arena.index(set)),
        model(static_cast<std::byte*>(arena.model().data_ptr())),
        count(arena.model().size(0)),
        row_bytes(arena.payload_bytes() / count) {}
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(row_bytes); }
  [[nodiscard]] std::int64_t offset(std::int64_t i) const { return row_at(index, i) * row_bytes; }
  [[nodiscard]] std::byte* place(std::int64_t i) const { return model + i * row_bytes; }
};

void require_whole(std::int64_t got, std::int64_t row_bytes, int error) {
  if (got == row_bytes) return;
  throw std::system_error(got < 0 ? error : EIO, std::generic_category(),
                          "a row of the file was not read whole");
}

}  // namespace

bool reads_a_file(const reports::Identity& id) {
  return id.placement == "mapped" && id.device == "cpu" && id.direction == "to";
}

void copy_from_mapping(Arena& arena, int set) {
  const FileBatch rows(arena, set);
  const auto* table = static_cast<const std::byte*>(arena.table().const_data_ptr());
  speedtorch::parallel_for(rows.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) std::memcpy(rows.place(i), table + rows.offset(i), rows.bytes());
  });
}

void pread_rows(Arena& arena, int set) {
  const FileBatch rows(arena, set);
  const int fd = arena.table_fd();
  speedtorch::parallel_for(rows.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i)
      require_whole(::pread(fd, rows.place(i), rows.bytes(), rows.offset(i)), rows.row_bytes, errno);
  });
}

#ifdef STBENCH_HAS_LIBURING

struct RingLoop::Ring {
  io_uring ring{};
  unsigned depth = static_cast<unsigned>(speedtorch::FileRowsOptions{}.depth);
  Ring() {
    if (const int error = -io_uring_queue_init(depth, &ring, 0); error != 0)
      throw std::system_error(error, std::generic_category(), "io_uring");
  }
  ~Ring() { io_uring_queue_exit(&ring); }
};

RingLoop::RingLoop() : ring_(std::make_shared<Ring>()) {}

std::string RingLoop::refusal() {
  std::string why;
  return speedtorch::make_ring_reader(1, why) ? "" : why;
}

void RingLoop::gather(Arena& arena, int set) {
  const FileBatch rows(arena, set);
  const int fd = arena.table_fd();
  auto& ring = ring_->ring;
  unsigned in_flight = 0;
  std::int64_t got = rows.row_bytes;  // the worst result
  for (std::int64_t next = 0; next < rows.count || in_flight > 0;) {
    for (; next < rows.count && in_flight < ring_->depth; ++next, ++in_flight) {
      io_uring_prep_read(io_uring_get_sqe(&ring), fd, rows.place(next), static_cast<unsigned>(rows.row_bytes),
                         static_cast<unsigned long long>(rows.offset(next)));
    }
    io_uring_submit_and_wait(&ring, 1);
    io_uring_cqe* entry = nullptr;
    unsigned head = 0, seen = 0;
    io_uring_for_each_cqe(&ring, head, entry) got = std::min<std::int64_t>(got, entry->res), ++seen;
    io_uring_cq_advance(&ring, seen);
    in_flight -= seen;
  }
  require_whole(got, rows.row_bytes, static_cast<int>(-got));
}

#else

struct RingLoop::Ring {};
RingLoop::RingLoop() = default;
std::string RingLoop::refusal() {
  return "this program was built without liburing; install it and build again";
}
void RingLoop::gather(Arena&, int) { throw std::logic_error(refusal()); }

#endif

}  // namespace stbench

#include "benchmarks/transfer/file_peers.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "speedtorch/files/file_rows.h"
#include "speedtorch/threads.h"

#ifdef STBENCH_HAS_LIBURING
#include <liburing.h>
#endif

namespace stbench {
namespace {

constexpr std::int64_t grain = 64;  // rows

void require_whole(std::int64_t got, std::int64_t row_bytes, int error) {
  if (got == row_bytes) return;
  throw std::system_error(got < 0 ? error : EIO, std::generic_category(),
                          "a row of the file was not read whole");
}

}  // namespace

bool reads_a_file(const TransferCase& one) {
  return one.placement == speedtorch::Placement::mapped && !one.on_gpu() && one.direction == Direction::to;
}

void pread_rows(Operands& operands, int set) {
  const auto rows = operands.rows(set);
  const int fd = operands.table_fd();
  const auto first = operands.table_offset();
  speedtorch::parallel_for(rows.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i)
      require_whole(::pread(fd, rows.model_row(i), rows.bytes(), first + rows.offset_at(i)), rows.row_bytes,
                    errno);
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

void RingLoop::gather(Operands& operands, int set) {
  const auto rows = operands.rows(set);
  const int fd = operands.table_fd();
  const auto first = operands.table_offset();
  auto& ring = ring_->ring;
  unsigned in_flight = 0;
  std::int64_t got = rows.row_bytes;  // the worst result
  for (std::int64_t next = 0; next < rows.count || in_flight > 0;) {
    for (; next < rows.count && in_flight < ring_->depth; ++next, ++in_flight) {
      io_uring_prep_read(io_uring_get_sqe(&ring), fd, rows.model_row(next),
                         static_cast<unsigned>(rows.row_bytes),
                         static_cast<unsigned long long>(first + rows.offset_at(next)));
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
void RingLoop::gather(Operands&, int) { throw std::logic_error(refusal()); }

#endif

}  // namespace stbench

#include "benchmarks/memory/footprint_worker.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "benchmarks/peers/peer_process.h"
#include "benchmarks/suite/devices.h"
#include "benchmarks/tables/row_check.h"
#include "benchmarks/tables/table_store.h"
#include "speedtorch/cuda.h"
#include "speedtorch/threads.h"

namespace stbench {
namespace {

/// Every thread must work once before the baseline is read; fill_memory gives each a MiB.
constexpr std::int64_t warm_bytes_a_thread = std::int64_t{1} << 20;
/// On a GPU the least possible: LibTorch's allocators keep freed memory and would reuse it for the table.
constexpr std::int64_t warm_bytes_of_cuda = 512;

/// Fills and checks the first rows of a table.
void fill_and_check(const TableAllocator& allocator, const speedtorch::Memory& memory, std::int64_t rows,
                    std::int64_t row_bytes, std::uint64_t seed) {
  allocator.fill(memory, rows * row_bytes, seed);
  (void)RowBytes(memory, rows, row_bytes).check_all(seed, "row of the table");
}

template <class Work>
double seconds_of(Work work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

/// Keeps the standard output for the answers: what libraries print goes to standard error.
class Answers {
 public:
  Answers() : file_(::fdopen(::dup(STDOUT_FILENO), "w")) { ::dup2(STDERR_FILENO, STDOUT_FILENO); }
  ~Answers() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  void say(std::string text) {
    std::ranges::replace(text, '\n', ' ');
    fmt::print(file_, "{}\n", text);
    std::fflush(file_);
  }

 private:
  std::FILE* file_;
};

}  // namespace

std::string FootprintWorker::answer(const std::string& line) {
  if (line.starts_with("hold "))
    return get_ready(nlohmann::json::parse(line.substr(5)).get<FootprintRequest>());
  if (line == "allocate") return allocate();
  if (line == "free") return free();
  throw std::invalid_argument(fmt::format("unknown request '{}'", line));
}

/// Does everything once with a small table, so that memory of libraries and threads is part of the baseline.
std::string FootprintWorker::get_ready(FootprintRequest request) {
  request_ = std::move(request);
  memory_.reset();
  file_ = request_.table.empty() ? nullptr : std::make_unique<TableFile>(request_.table);
  speedtorch::set_threads(static_cast<int>(request_.cpus.size()), request_.cpus);
  const auto& allocator = allocator_named(request_.method);
  const auto bytes =
      cuda_only(request_.placement) ? warm_bytes_of_cuda : std::ssize(request_.cpus) * warm_bytes_a_thread;
  const auto small = allocator.allocate(placement_of(request_.placement), bytes, at::Device(request_.device));
  fill_and_check(allocator, *small, bytes, 1, request_.seed);
  return "ready " + figures().dump();
}

std::string FootprintWorker::allocate() {
  const auto& allocator = allocator_named(request_.method);
  const auto placement = placement_of(request_.placement);
  const bool in_place = file_ && placement == speedtorch::Placement::mapped;
  const double allocated_s = seconds_of([&] {
    memory_ = in_place ? file_->map()
                       : allocator.allocate(placement, request_.bytes(), at::Device(request_.device));
  });
  const double filled_s = seconds_of([&] { fill_table(); });
  const auto check = check_table();
  auto answer = figures();
  // Memory is pinned as it is allocated, by one call of the driver.
  answer[placement == speedtorch::Placement::pinned ? "pin_s" : "allocate_s"] = allocated_s;
  if (memory_->writable()) answer["fill_s"] = filled_s;
  answer["verified_rows"] = check.rows, answer["mismatches"] = check.mismatches,
  answer["first"] = check.first;
  return "held " + answer.dump();
}

/// The check alone touches the rows of a file that is mapped in place.
void FootprintWorker::fill_table() const {
  const auto bytes = request_.touched_rows * request_.row_bytes;
  if (!file_) {
    allocator_named(request_.method).fill(*memory_, bytes, request_.seed);
  } else if (memory_->writable()) {
    fill_memory(*memory_, 0, bytes, {request_.seed, file_.get()});
  }
}

harness::Check FootprintWorker::check_table() const {
  const Content content(request_.seed, file_.get());
  return RowBytes(*memory_, request_.touched_rows, request_.row_bytes).check_all(content, "row of the table");
}

std::string FootprintWorker::free() {
  memory_.reset();
  return "freed " + figures().dump();
}

/// Bytes in use on the device; nothing for a table on the host, which does not initialise CUDA.
nlohmann::json FootprintWorker::figures() const {
  if (request_.device == "cpu") return nlohmann::json::object();
  const auto memory = speedtorch::cuda_memory(at::Device(request_.device));
  return {{"device_bytes", memory.used},
          {"device_reserved_bytes", memory.reserved},
          {"device_allocated_bytes", memory.allocated},
          {"device_most_reserved_bytes", memory.most_reserved}};
}

int serve_footprint() {
  Answers answers;
  answers.say(fmt::format(R"(hello {{"protocol": {}}})", peer_protocol));
  FootprintWorker session;
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    try {
      answers.say(session.answer(line));
    } catch (const c10::Error& error) {
      answers.say(std::string("error ") + error.what_without_backtrace());
    } catch (const std::exception& error) {
      answers.say(std::string("error ") + error.what());
    }
  }
  return 0;
}

}  // namespace stbench

/// Times the halves of a gather on this machine: reading random rows, writing as many bytes past the caches,
/// both at once, and a contiguous copy of as many bytes. Each is the fastest of several ways. It needs no
/// library.
///
/// usage: g++ -std=c++20 -O3 -march=native -pthread halves.cpp -o halves && ./halves [GIB] [ROUNDS]
///   a table of GIB GiB (4), in 4 KiB pages and in huge ones; medians of ROUNDS shuffled rounds (13); one
///   thread on each of cores 0 and 1
#include <immintrin.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 2;
constexpr std::int64_t kLine = 64, kRows = 131'072, kMostBytes = std::int64_t{256} << 20;

using Line = long long __attribute__((vector_size(kLine), may_alias));

struct Job {
  const char* table;
  char* out;
  const std::int64_t* begins;  ///< where each row begins in the table, in bytes
  std::int64_t lines;          ///< of a row
};

void stream(char* to, const Line& line) {
#ifdef __AVX512F__
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)line);
#else
  const auto* half = reinterpret_cast<const __m256i*>(&line);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), half[0]);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + 1, half[1]);
#endif
}

/// Visits rows `first` to before `last`. @tparam level of __builtin_prefetch(): 3 for L1, 2 for L2
template <bool reads, bool writes, int level>
Line visit(const Job& job, std::int64_t first, std::int64_t last, std::int64_t ahead) {
  Line sum{};
  std::int64_t asked_row = first + ahead / job.lines, asked_line = ahead % job.lines;
  char* to = job.out + first * job.lines * kLine;
  for (auto row = first; row < last; ++row) {
    const char* from = job.table + job.begins[row];
    for (std::int64_t line = 0; line < job.lines; ++line, to += kLine) {
      if (ahead > 0 && asked_row < last) {
        __builtin_prefetch(job.table + job.begins[asked_row] + asked_line * kLine, 0, level);
        if (++asked_line == job.lines) asked_line = 0, ++asked_row;
      }
      Line got{};
      if constexpr (reads) got = *reinterpret_cast<const Line*>(from + line * kLine);
      if constexpr (writes) stream(to, got);
      if constexpr (!writes) sum += got;
    }
  }
  _mm_sfence();
  return sum;
}

/// A thread for each core, which all start a piece of work together.
class Cores {
 public:
  Cores() {
    for (int core = 0; core < kThreads; ++core) {
      threads_.emplace_back([this, core] {
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(core, &only);
        if (pthread_setaffinity_np(pthread_self(), sizeof only, &only) != 0) std::exit(1);
        for (start_.arrive_and_wait(); work_; start_.arrive_and_wait()) {
          work_(core);
          end_.arrive_and_wait();
        }
      });
    }
  }
  ~Cores() {
    work_ = nullptr;
    start_.arrive_and_wait();
    for (auto& thread : threads_) thread.join();
  }
  /// @returns milliseconds
  double run(std::function<void(int core)> work) {
    work_ = std::move(work);
    const auto begin = std::chrono::steady_clock::now();
    start_.arrive_and_wait();
    end_.arrive_and_wait();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  std::function<void(int core)> work_;
  std::barrier<> start_{kThreads + 1}, end_{kThreads + 1};
  std::vector<std::thread> threads_;
};

char* pages(std::int64_t bytes, bool huge) {
  constexpr std::int64_t kHuge = std::int64_t{2} << 20;
  void* all = mmap(nullptr, static_cast<std::size_t>(bytes + kHuge), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) {
    std::fprintf(stderr, "no memory for %lld bytes\n", static_cast<long long>(bytes));
    std::exit(1);
  }
  char* aligned =
      reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(all) + kHuge - 1) / kHuge * kHuge);
  madvise(aligned, static_cast<std::size_t>(bytes), huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  std::mt19937_64 random(1);
  for (std::int64_t at = 0; at < bytes; at += kLine)
    *reinterpret_cast<std::uint64_t*>(aligned + at) = random();
  return aligned;
}

using Visit = Line (*)(const Job&, std::int64_t, std::int64_t, std::int64_t);
enum Kind { reading, writing, gathering, copying };
constexpr int kKinds = 4;

struct Way {
  Kind kind;
  Visit visit;
  int level;
  std::int64_t ahead;
  std::vector<double> ms;
};

std::vector<Way> ways() {
  std::vector<Way> all{{writing, visit<false, true, 3>, 0, 0, {}}};
  for (const std::int64_t ahead : {0, 16, 32, 64, 128, 256, 512}) {
    all.push_back({reading, visit<true, false, 3>, 1, ahead, {}});
    all.push_back({gathering, visit<true, true, 3>, 1, ahead, {}});
    all.push_back({copying, visit<true, true, 3>, 1, ahead, {}});
    if (ahead == 0) continue;
    all.push_back({reading, visit<true, false, 2>, 2, ahead, {}});
    all.push_back({gathering, visit<true, true, 2>, 2, ahead, {}});
    all.push_back({copying, visit<true, true, 2>, 2, ahead, {}});
  }
  return all;
}

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

void measure(Cores& cores, const char* table, std::int64_t table_bytes, char* out, std::int64_t row_bytes,
             bool huge, int rounds) {
  const auto count = std::min(kRows, kMostBytes / row_bytes), table_rows = table_bytes / row_bytes;
  std::mt19937_64 random(static_cast<std::uint64_t>(row_bytes));
  std::vector<std::int64_t> random_rows(static_cast<std::size_t>(count)), in_order(random_rows);
  for (std::int64_t k = 0; k < count; ++k) in_order[static_cast<std::size_t>(k)] = k * row_bytes;
  auto all = ways();
  for (int round = 0; round < rounds; ++round) {
    std::ranges::shuffle(all, random);
    for (auto& way : all) {
      for (auto& at : random_rows)
        at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(table_rows)) * row_bytes;
      // A copy reads another part of the table each time, as a gather does.
      const auto offset =
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(table_rows - count));
      const Job job{way.kind == copying ? table + offset * row_bytes : table, out,
                    (way.kind == copying ? in_order : random_rows).data(), row_bytes / kLine};
      Line sums[kThreads];
      way.ms.push_back(cores.run([&](int core) {
        sums[core] = way.visit(job, count * core / kThreads, count * (core + 1) / kThreads, way.ahead);
      }));
      volatile long long kept = sums[0][0] + sums[1][0];
      static_cast<void>(kept);
    }
  }
  double best[kKinds] = {1e9, 1e9, 1e9, 1e9};
  std::string how[kKinds];
  for (const auto& way : all) {
    const double ms = median(way.ms);
    if (ms >= best[way.kind]) continue;
    best[way.kind] = ms;
    how[way.kind] =
        way.ahead == 0 ? "-" : std::string(way.level == 1 ? "L1 " : "L2 ") + std::to_string(way.ahead);
  }
  const double halves = best[reading] + best[writing];
  std::printf("%5lld %6s  %7.2f %-7s %7.2f  %7.2f %-7s %7.2f %-7s  %7.2f %7.2f %7.2f %7.2f\n",
              static_cast<long long>(row_bytes), huge ? "huge" : "4KiB", best[reading], how[reading].c_str(),
              best[writing], best[gathering], how[gathering].c_str(), best[copying], how[copying].c_str(),
              halves / best[gathering], best[reading] / best[gathering], best[copying] / best[gathering],
              best[copying] / halves);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t table_bytes = (argc > 1 ? std::atoll(argv[1]) : 4) << 30;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 13;
  if (table_bytes < (std::int64_t{1} << 30) || rounds < 1) {
    std::fprintf(stderr, "usage: halves [GIB, 1 or more] [ROUNDS, 1 or more]\n");
    return 2;
  }
  std::printf(
      "ms: medians of %d; beside them the prefetch and how many lines ahead\n"
      "  row  pages     read        write   gather            copy            halves/gather "
      "read/gather copy/gather copy/halves\n",
      rounds);
  Cores cores;
  for (const bool huge : {false, true}) {
    const char* table = pages(table_bytes, huge);
    char* out = pages(kMostBytes, huge);
    for (const std::int64_t row_bytes : {64, 128, 256, 512, 1024, 4096})
      measure(cores, table, table_bytes, out, row_bytes, huge, rounds);
    munmap(const_cast<char*>(table), static_cast<std::size_t>(table_bytes));
    munmap(out, static_cast<std::size_t>(kMostBytes));
  }
}

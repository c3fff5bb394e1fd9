/// The program. Only here errors become exit statuses.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "benchmarks/memory/footprint_worker.h"
#include "benchmarks/program/command_line.h"
#include "benchmarks/program/google_benchmark_process.h"
#include "benchmarks/sharded/rank_processes.h"
#include "reports/standard_output.h"
#include "speedtorch/cuda.h"

namespace {

/// libgomp's idle workers spin and halve a neighbour on 2 cores; told to sleep at once they make LibTorch's
/// small operations 13 times slower. A short spin leaves both alone, but libgomp reads it only when the
/// process starts. A start takes 0.4 s, so only what measures starts again.
void restart_with_short_spin(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", "5000", 0);
  ::execv("/proc/self/exe",
          argv);  // if it fails the run goes on; the report shows that the variable came late
}

bool has_exit_status = false;

/// Exit status 1 says that a result is wrong. A library that gives up says it too: libgomp, for instance,
/// calls exit(1) if it cannot start a thread.
void refuse_exit_of_a_library() {
  if (has_exit_status) return;
  std::fputs("stbench: a library ended the program; what it says is above\n", stderr);
  std::_Exit(2);
}

int fail(const char* message) {
  std::fprintf(stderr, "stbench: %s\n", message);
  return 2;
}

int run_program(char** argv, const std::vector<std::string>& words) {
  try {
    if (words == std::vector<std::string>{stbench::footprint_command}) return stbench::serve_footprint();
    if (!words.empty() && words.front() == stbench::rank_command) return stbench::serve_started_rank(words);
    if (words.size() == 2 && words.front() == stbench::google_benchmark_command)
      return stbench::serve_google_benchmark(words.back());
    const auto command = stbench::parse_command_line(words);
    if (command.measures) restart_with_short_spin(argv);
    return command.execute();
  } catch (const std::bad_alloc&) {
    return fail("out of memory; use fewer --rows or a smaller --batch");
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return fail(error.what());
    return fail(  // a std::thread's, which says nothing but the system's reason
        ("a thread cannot be started: " + error.code().message() +
         "; use fewer --cores, or raise the limit on processes (ulimit -u, or pids.max of the container)")
            .c_str());
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

}  // namespace

/// The program calls cuda_status() before LibTorch looks for CUDA, and its `show` starts sooner without this.
bool speedtorch::loads_cuda_before_main() { return false; }

int main(int argc, char** argv) {
  stbench::reports::reserve_standard_descriptors();
  // A file beyond the limit on sizes (ulimit -f) is an error of its write, not the end of the run.
  std::signal(SIGXFSZ, SIG_IGN);
  // A program that ignores SIGCHLD hands this on, and then no process can be waited for.
  std::signal(SIGCHLD, SIG_DFL);
  std::atexit(refuse_exit_of_a_library);
  const int status = run_program(argv, {argv + 1, argv + argc});
  has_exit_status = true;
  return status;
}

#include "benchmarks/program/help.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "benchmarks/program/own_command.h"
#include "benchmarks/program/version.h"
#include "reports/style.h"

namespace stbench {
namespace {

constexpr std::size_t text_column = 30;  // of the options

constexpr std::string_view usage_lines =
    R"(stbench measures how fast rows of a table move, and checks every number.

Usage: stbench [run] --suite transfer,memory,... [OPTIONS]
)";

/// A line a command but `run`: those that measure or show, and in the long help all.
std::string command_lines(bool everything) {
  std::string text;
  for (const auto& common : common_commands()) {
    if (common.name != "run") text += fmt::format("       stbench {:<19} {}\n", common.usage, common.summary);
  }
  for (const auto& own : own_commands()) {
    if (everything || !own.prints_itself)
      text += fmt::format("       stbench {:<19} {}\n", own.usage, own.summary);
  }
  return text;
}

constexpr std::string_view examples = R"(Examples:
  stbench --suite transfer --csv t.csv --json t.json
  stbench --suite transfer --preset quick --rows 10M --row-bytes 64,256,1Ki
  stbench --case 'transfer to hugepage -> speedtorch -> cpu float32 1M×128
                  batch 131072 unique int64 cores=1'
)";

constexpr std::string_view notes =
    R"(Lists are separated by commas. Numbers take k M G = 10^3, 10^6, 10^9 and Ki Mi Gi = 2^10, 2^20,
2^30, and ranges: 1k:1M:x4 multiplies, 1:9:+2 adds. Sizes in reports are SI: GB = 10^9 bytes.

REGEX and FILTER are in RE2's syntax (github.com/google/re2/wiki/Syntax): no back references, no
look-around. Each is looked for anywhere in the sentence; ^ and $ are its ends.

Results go to stdout, progress and messages to stderr. NO_COLOR turns colour off. If stdout is full
or closed, that is an error; with stdout closed, a run that writes a report leaves the tables out.
Exit status: 0 every case ok, unstable or waived; 1 a wrong result; 2 bad usage, a failed case, or
a result that could not be written;
128 + signal when interrupted (the report then holds the finished cases and says so).
compare, and run with --baseline: 0 none slower; 1 a row is slower, lost or failed; 2 an error or a
wrong result; 3 not comparable (another machine, driver, build or schema).
An --expect that is not met is 1, too.

calibrate takes a run's options. show takes --columns LIST and --sort [-]COLUMN (both print rows
as a list; case is the sentence), --filter REGEX and --color. doctor takes --text (with versions,
to paste into a bug report), --json, and --strict (exit status 1 where something spoils numbers).
)";

const std::vector<OptionGroup>& groups() {
  static const std::vector<OptionGroup> all{
      {"What",
       {{"--suite LIST", "transfer, memory, optimizer, embedding, contiguous, infinitybatch",
         "optimizer: a step on the rows of a batch, and its states there and back. embedding: word2vec on a "
         "text. "
         "contiguous: a step on all parameters of a model. infinitybatch: a training "
         "step by batches larger than memory; it runs last. These four run on the cpu where --device names "
         "no GPU (docs/steps.md). "
         "memory holds 10M × 128 float32 (or what the memory has room for) in every placement, by our memory "
         "and by LibTorch's tensors, one process a case; it takes --placement, --method, --peers numpy,cupy, "
         "--device, --dtype, --rows, --dim and --row-bytes of the axes."},
        {"--preset NAME", "quick, standard (default), kernels, files, steps, batches, small, full",
         "quick (a minute): libtorch and hugepage tables, all cores. standard (five minutes): every "
         "placement and direction, 1 core "
         "and all of them. kernels: what scripts/goals judges, in under ten minutes: 13 row widths of a "
         "table "
         "of 5 GB, small batches with their latency. files: the same for mapped tables, in about five "
         "minutes: warm "
         "and cold rows of 64 B, 512 B and 4 KiB. steps: what scripts/goals judges of --suite "
         "optimizer,contiguous. batches: the same of --suite infinitybatch. small: tables of 6×3 to 20×3 "
         "elements there and back, and how often a second. full (hours): "
         "every value of the closed axes, warm; --dry-run says what that is."},
        {"--workload LIST", "shapes of today's programs: engram-v41, kv-page, gnn-papers, ...",
         "stbench list names them. Each sets rows, row bytes, batches, distributions and directions; an axis "
         "that "
         "is given wins. Rows are halved until the tables take a quarter of the memory, and half of what is "
         "free; batches are at most the rows; the report says so. The row's bytes are never scaled."},
        {"--case 'SENTENCE'", "one case, as reports name it, and what it is judged against",
         "Runs the case in the same rounds as LibTorch's methods and the ceilings of its cell, which its "
         "ratios need."},
        {"--filter REGEX", "only cases whose sentence matches", ""},
        {"--dry-run", "print the cases and stop", ""}}},
      {"Axes",
       {{"--direction LIST", "to, from, sum, round_trip, both",
         "to: table rows into the model tensor. from: model tensor into table rows. sum: the two medians "
         "added. round_trip: really "
         "from, with fresh values, and then to. both: half of the rows to and the other half from at the "
         "same "
         "time, on two streams between pinned memory and a GPU."},
        {"--placement LIST", "libtorch, pageable, hugepage, mapped, pinned, device",
         "Where the table lives: as LibTorch allocates it; in 4 KiB pages; in huge pages; in a file mapped "
         "into memory (TMPDIR, else "
         "/var/tmp); in pinned host memory that kernels read in place; in the GPU's memory."},
        {"--method LIST", "who moves the rows; stbench list names them",
         "speedtorch_8sm and its like keep our kernels to so many multiprocessors of a GPU."},
        {"--peers LIST", "numpy, torch, ...: others in the same rounds; stbench list names them",
         "numpy, torch and cupy are Python programs of their own that share the table's memory; the Python "
         "is "
         "STBENCH_PYTHON's, else the python3 on the PATH, and the time is their own clock's around the "
         "operation. torch_sparse is Python torch's sparse optimizers, of --suite optimizer. embedding_bag "
         "and gather are operations of LibTorch that nobody calls the best; "
         "cub_batched and memcpy_batch are operations of the CUDA toolkit, for cells on a GPU; mmap, pread "
         "and io_uring are ways into mapped tables. docs/peers.md "
         "has more."},
        {"--optimizer LIST", "of the suites that step: SparseAdam, Adagrad, SGD, ...", "", true},
        {"--negatives LIST", "words drawn for each pair of --suite embedding (5)", "", true},
        {"--shape LIST", "models of --suite contiguous: resnet-50, ...; even: --rows × --dim", "", true},
        {"--clip LIST", "norms that --suite contiguous clips to; 0: not at all (0, 0.1)", "", true},
        {"--model LIST", "what --suite infinitybatch trains: mlp, conv, transformer", "", true},
        {"--micro-batch LIST", "auto, fixed: whether its micro-batches find their size", "", true},
        {"--text FILE", "what --suite embedding trains on (King James Bible)", "", true},
        {"--device LIST", "where the model tensor is: cpu, cuda, cuda:N", ""},
        {"--rows, --dim LIST", "shape of the table (1M, 128)", ""},
        {"--row-bytes LIST", "row width in bytes, instead of --dim and --dtype", ""},
        {"--batch LIST", "rows an operation (131072)", ""},
        {"--dtype LIST", "float32, float16, bfloat16, float64, int8, int32, int64", ""},
        {"--index-dtype LIST", "int64, int32", ""},
        {"--distribution LIST", "unique, uniform, sequential, sorted, zipf:S, file:PATH",
         "How the index names rows. unique has no repeats. sorted is uniform in ascending order. zipf:S has "
         "ranks by Zipf's law, scattered "
         "over the table. file:PATH is a trace: one row number a line, or a one-dimensional .npy of "
         "integers; its batches are consecutive."},
        {"--cores, --callers LIST", "threads, pinned (1 and all); threads that call at once (1)",
         "Each caller moves its own batch, of 16384 rows where --batch is not given, with rows of its own; a "
         "sample is from the first one's start to the last one's end. Callers share the cores: each has "
         "cores / "
         "callers threads, at least one."},
        {"--cache, --isa LIST", "warm, cold (warm); instruction set of our host kernels (best)",
         "cold: before each sample, outside its time, the processor's caches are filled with other bytes, "
         "and a "
         "mapped table's file is taken out of memory, which is confirmed. Such a table may be larger than "
         "memory. stbench list names the instruction sets."}}},
      {"Effort",
       {{"--samples, --warmup N", "exactly N samples a case; N untimed runs first (1)",
         "Without --samples at least 11 and at most 61: a cell ends when every case's 95 % interval is "
         "within 10 % "
         "of its median, or when its "
         "time is up."},
        {"--timeout S", "limit of one step of one case; such a case is failed (120)",
         "A case that hangs is reported as failed with all that was finished, and the run ends. 0 is no "
         "limit."},
        {"--verify first|every", "check before the first and after the last sample, or each", ""},
        {"--seed N", "of fill, indices and order (1)", "", true}}},
      {"Output",
       {{"--csv FILE, --json FILE", "reports; - is stdout, and then nothing else goes there",
         "docs/schema.md explains each column."},
        {"--events FILE, --trace FILE", "cases as they finish; a time line for Perfetto",
         "events: one JSON object a line, so that a run that is killed leaves its rows; show reads it. "
         "trace: what was done "
         "when, for ui.perfetto.dev or chrome://tracing; the names are those that NVIDIA's profilers get.",
         true},
        {"--expect 'FILTER>=GBPS'", "exit status 1 where a row that matches is slower",
         "FILTER is a regular expression on the case's sentence, GBPS the least gb_per_s. May be given "
         "several times. "
         "Nothing measured that matches is a failure, too.",
         true},
        {"--color auto|always|never", "colour on the screen", ""}}},
      {"Comparing (docs/compare.md)",
       {{"--effect SHARE", "least change that counts (2%)",
         "A row is slower or faster from its limit on: this, or what runs of the same thing differ by on "
         "this "
         "machine, if that is more."},
        {"--must-see SHARE", "exit status 4 if a slowdown of that size could go unseen",
         "Each compared case must have been able to show such a slowdown in 80 % of comparisons, and must exclude "
         "it."},
        {"--metric NAME", "auto, time, or a column of which less is better (auto)",
         "auto is time relative to the cell's ceiling in the same run, where there is one: the machine's "
         "speed "
         "drifts."},
        {"--across LIST", "what may differ: machine, driver, build", ""},
        {"--allow-missing", "a case lost or failed is no reason for exit status 1", ""},
        {"--all", "print the rows that are the same, too", ""},
        {"--markdown FILE", "the comparison for a pull request; --csv, --json for programs", ""},
        {"--baseline NAME", "run, and compare with a baseline saved before", ""},
        {"--save-baseline NAME", "run, and keep the reports as a baseline", ""},
        {"--processes N", "measure in N processes, one after the other (1; calibrate: 10)",
         "Each has luck of its own, which its samples do not show: five a side tell much more than one."},
        {"--baselines DIR", "where baselines and calibrations are (baselines)", ""}},
       true},
  };
  return all;
}

constexpr std::string_view google_benchmark = R"(Google Benchmark's flags that work here:
  --benchmark_list_tests --benchmark_filter=REGEX --benchmark_out=FILE
  --benchmark_out_format=json|csv|console --benchmark_color=auto|true|false
)";

std::string option_lines(bool everything) {
  std::string text;
  for (const auto& group : groups()) {
    if (group.long_only && !everything) continue;
    text += fmt::format("\n{}:\n", group.title);
    for (const auto& help : group.options) {
      if (help.rare && !everything) continue;
      text += fmt::format("  {:<27} {}\n", help.option, help.brief);
      if (!everything || help.more.empty()) continue;
      for (const auto& line : reports::wrapped(help.more, reports::kScreenWidth - text_column, 0))
        text += std::string(text_column, ' ') + line + "\n";
    }
  }
  return text + fmt::format("  {:<27} {}\n", "-h, --help, --version",
                            everything ? "this, and the version" : "this screen, everything, the version");
}

}  // namespace

std::vector<OptionGroup> option_groups() {
  auto all = groups();
  all.push_back({"Program",
                 {{"-h", "help on one screen", ""},
                  {"--help", "help on everything", ""},
                  {"--version", "name and version", ""}}});
  all.push_back({"Google Benchmark's flags that work here",
                 {{"--benchmark_list_tests", "the cases, as --dry-run prints them", ""},
                  {"--benchmark_filter REGEX", "as --filter", ""},
                  {"--benchmark_out FILE", "the samples as Google Benchmark writes them", ""},
                  {"--benchmark_out_format NAME", "of that file", ""},
                  {"--benchmark_color NAME", "as --color", ""}}});
  return all;
}

std::string_view help_notes() { return notes; }
std::string_view help_examples() { return examples; }

std::string short_help_text() {
  return fmt::format("{}{}{}\n{}", usage_lines, command_lines(false), option_lines(false), examples);
}

std::string long_help_text() {
  return fmt::format("{}{}{}\n{}\n{}\n{}", usage_lines, command_lines(true), option_lines(true),
                     google_benchmark, notes, examples);
}

std::string version_text() { return std::string(program_name) + "\n"; }

}  // namespace stbench

/// This program, run again as processes of its own: what a process has of luck (where its memory lies, what
/// else ran) only other processes show.
#pragma once

#include <unistd.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "benchmarks/suite/options.h"
#include "reports/record.h"

namespace stbench {

/// Starts this program again, in a process group of its own: an interrupt from the terminal is for us alone.
/// @param streams its descriptors 0, 1, ...
/// @returns the process, or the system's error below 0
pid_t start_self(std::vector<std::string> words, std::initializer_list<int> streams,
                 char* const* environment = environ);

struct OwnRuns {
  std::vector<reports::Report> reports;  ///< of the processes that measured everything
  int exit_status = 0;                   ///< of the first that did not, else 0
};

/// Runs the options' measurement as so many processes, one after the other; it ends with the first whose exit
/// status is not 0 (that one's report is kept, too).
/// @param show lets the processes print what a run prints
/// @throws reports::ReportError where a process cannot be started or leaves no report.
OwnRuns run_processes(const Options& options, int processes, bool show);

}  // namespace stbench

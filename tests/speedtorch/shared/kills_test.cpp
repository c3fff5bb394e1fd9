/// Processes that share a table are killed at random instants: the holder, writers, readers, or all of them.
/// The others go on, every row is whole, and nothing is left.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

#include "speedtorch/error.h"
#include "speedtorch/shared/shared_table.h"
#include "speedtorch/tables/table_rows.h"
#include "tests/speedtorch/shared/sockets.h"
#include "tests/speedtorch/shared/whole_rows.h"

namespace speedtorch {
namespace {

constexpr std::int64_t kRows = 64;  // few, so that writers meet
const std::string kName = "kills " + std::to_string(::getpid());

enum Role { holder, first_writer, second_writer, reader, roles };

/// Children fork from this process, which starts no threads before.
template <class Work>
pid_t run(Work work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  at::set_num_threads(1);
  try {
    work();
  } catch (const Error& error) {  // a holder that was killed while it answered, or before
    std::fprintf(stderr, "%s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "no error of the library: %s\n", error.what());
    ::_exit(9);
  }
  ::_exit(0);
}

void hold_for_ever() {
  const auto table =
      Table::from_array(test::all_rows_by(0, kRows), {.placement = Placement::pageable, .shared = true});
  const auto held = SharedTable::hold(kName, table, {.writers = Writers::row_locks});
  for (;;) ::pause();
}

/// Writes and gathers; a writer sees only whole rows after it has finished those of killed ones and while no
/// other writes, so readers count nothing here.
void use_for_ever(std::int64_t tag) {
  const auto shared = SharedTable::attach(kName, {.access = tag > 0 ? Access::read_write : Access::read_only,
                                                  .timeout = std::chrono::minutes(1)});
  for (std::uint64_t batch = 0;; ++batch) {
    const auto index = test::any_rows(batch, 100, kRows);
    if (tag > 0) {
      shared.scatter(index, test::rows_by(tag, index));
    } else {
      gather_rows(shared.table(), index, at::kCPU);
    }
  }
}

pid_t start(int role) {
  if (role == holder) return run(hold_for_ever);
  return run([role] { use_for_ever(role == reader ? 0 : role); });
}

void end(pid_t child) {
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "status " << status;
}

TEST(SharedTableKills, OthersGoOnRowsAreWholeAndNothingIsLeft) {
  stbench::harness::Random random(stbench::harness::key_of(STBENCH_KILLS, 25, 1));
  const auto later = [&](std::int64_t most_us) {
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(most_us)));
  };
  std::int64_t finished = 0, kills = 0;
  while (kills < STBENCH_KILLS) {
    std::array<pid_t, roles> processes{};
    processes[holder] = start(holder);
    // This process shares the table too, and so sees what the killed ones leave.
    const auto shared =
        SharedTable::attach(kName, {.access = Access::read_write, .timeout = std::chrono::minutes(1)});
    for (int role = first_writer; role < roles; ++role)
      processes[static_cast<std::size_t>(role)] = start(role);
    const auto rounds = random.below(6);
    bool is_held = true;
    for (std::int64_t k = 0; k < rounds; ++k) {
      later(20'000);
      const auto role = static_cast<std::size_t>(random.below(roles));
      end(processes[role]);
      ++kills;
      is_held = is_held && role != holder;
      const auto index = test::any_rows(static_cast<std::uint64_t>(kills), 50, kRows);
      shared.scatter(index, test::rows_by(9, index));  // goes on, whoever was killed
      processes[role] = role == holder || !is_held ? 0 : start(static_cast<int>(role));
      if (processes[role] == 0) break;
    }
    later(5'000);
    for (const auto process : processes)
      if (process > 0) end(process), ++kills;
    finished += shared.finish_rows();
    EXPECT_EQ(test::torn(shared.table().tensor()), 0) << "after " << kills << " kills";
    EXPECT_FALSE(test::is_listed(kName)) << "its socket is left";
  }
  RecordProperty("kills", std::to_string(kills));
  std::cout << kills << " kills, " << finished << " rows finished for killed writers\n";
}

}  // namespace
}  // namespace speedtorch

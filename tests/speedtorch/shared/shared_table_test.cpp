#include "speedtorch/shared/shared_table.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include "speedtorch/error.h"
#include "speedtorch/memory/shared_memory.h"
#include "speedtorch/shared/handover.h"
#include "speedtorch/tables/prefetch.h"
#include "speedtorch/tables/table_rows.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/in_child.h"
#include "tests/speedtorch/process_memory.h"
#include "tests/speedtorch/refusal.h"
#include "tests/speedtorch/shared/sockets.h"
#include "tests/speedtorch/shared/whole_rows.h"

namespace speedtorch {
namespace {

using stbench::test::TemporaryFolder;
using std::chrono::milliseconds;
using test::all_rows_by;
using test::in_child;
using test::in_forked_child;
using test::torn;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kRows = 300;
constexpr uid_t kNobody = 65534;

/// A name of this test process alone.
std::string named(const std::string& name) { return "test-" + std::to_string(::getpid()) + "-" + name; }

Table shared_memory(std::int64_t tag = 0) {
  return Table::from_array(all_rows_by(tag, kRows), {.placement = Placement::pageable, .shared = true});
}

/// A shared_program that was started, and is killed at the end.
class Program {
 public:
  Program() {
    std::array<int, 2> to{}, from{};
    EXPECT_EQ(::pipe2(to.data(), O_CLOEXEC) + ::pipe2(from.data(), O_CLOEXEC), 0);
    const auto path =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "shared_program").string();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], STDIN_FILENO);
      ::dup2(from[1], STDOUT_FILENO);
      ::execl(path.c_str(), path.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to[0]), ::close(from[1]);
    to_ = Descriptor(to[1]), from_ = Descriptor(from[0]);
  }
  ~Program() { kill(); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void say(const std::string& line) const {
    const auto text = line + "\n";
    EXPECT_EQ(::write(to_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// The next line that it answers; empty if it ended, "(silent)" after two minutes.
  [[nodiscard]] std::string answer() const {
    std::string line;
    for (char next = 0;;) {
      pollfd readable{from_.get(), POLLIN, 0};
      if (::poll(&readable, 1, 120'000) <= 0) return "(silent)";
      if (::read(from_.get(), &next, 1) != 1 || next == '\n') return line;
      line += next;
    }
  }
  [[nodiscard]] std::string ask(const std::string& line) const {
    say(line);
    return answer();
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  Descriptor to_, from_;
};

TEST(SharedTable, FourProcessesGatherTheRightRows) {
  const auto name = named("four");
  std::array<Program, 4> programs;
  for (std::size_t k = 1; k < 4; ++k) programs[k].say("attach " + name + " read_only");
  EXPECT_EQ(programs[0].ask("hold " + name + " 5000 holder pageable"), "held");  // the others wait for it
  for (std::size_t k = 1; k < 4; ++k) EXPECT_EQ(programs[k].answer(), "attached 5000");
  for (std::size_t k = 0; k < 4; ++k) programs[k].say("gather " + std::to_string(k) + " 20000");
  for (const auto& program : programs) EXPECT_EQ(program.answer(), "0");
}

TEST(SharedTable, TheHolderAloneWritesUnlessThereAreLocks) {
  const auto name = named("holder");
  const auto held = SharedTable::hold(name, shared_memory());
  Program reader;
  EXPECT_EQ(reader.ask("attach " + name + " read_write"),
            "error: the shared table '" + name + "' is written by its holder alone, which is process " +
                std::to_string(::getpid()) + "; attach it read_only, or hold it with Writers::row_locks");
  EXPECT_EQ(reader.ask("attach " + name + " read_only"), "attached 300");
  EXPECT_THAT(reader.ask("scatter 3 1"), HasSubstr("error: the shared table '" + name + "' of process "));
  held.scatter(at::arange(kRows), all_rows_by(2, kRows));
  const auto sum = all_rows_by(2, kRows).sum().item<std::int64_t>();
  EXPECT_EQ(reader.ask("sum"), std::to_string(sum));
  EXPECT_EQ(in_forked_child([&] {
              try {
                held.scatter(at::arange(kRows), all_rows_by(4, kRows));
                return false;
              } catch (const AccessError&) {
                return torn(held.table().tensor()) == 0;
              }
            }),
            "right");
  EXPECT_EQ(reader.ask("sum"), std::to_string(sum));
  auto rows = held.table();
  rows.fill(Zeros{});  // the only writer may use all that writes tables
  EXPECT_EQ(reader.ask("sum"), "0");
}

TEST(SharedTable, ConcurrentWritersLeaveEachRowWhole) {
  const auto name = named("writers");
  std::array<Program, 3> programs;
  EXPECT_EQ(programs[0].ask("hold " + name + " 50 row_locks pageable"), "held");
  for (std::size_t k = 1; k < 3; ++k)
    EXPECT_EQ(programs[k].ask("attach " + name + " read_write"), "attached 50");
  for (std::size_t k = 0; k < 3; ++k) programs[k].say("scatter " + std::to_string(k + 1) + " 300");
  for (const auto& program : programs) EXPECT_EQ(program.answer(), "written");
  for (const auto& program : programs) EXPECT_EQ(program.ask("torn"), "0");
}

TEST(SharedTable, SumsOfConcurrentWritersLoseNothing) {
  const auto name = named("sums");
  std::array<Program, 3> programs;
  EXPECT_EQ(programs[0].ask("hold " + name + " 50 row_locks pageable"), "held");
  for (std::size_t k = 1; k < 3; ++k)
    EXPECT_EQ(programs[k].ask("attach " + name + " read_write"), "attached 50");
  for (const auto& program : programs) program.say("add 200");
  for (const auto& program : programs) EXPECT_EQ(program.answer(), "added");
  const auto sum = all_rows_by(0, 50).sum().item<std::int64_t>() + 3 * 200 * 50 * test::kWords;
  EXPECT_EQ(programs[1].ask("sum"), std::to_string(sum));
}

TEST(SharedTable, ScattersUnderLocksAreThoseOfATable) {
  const auto held = SharedTable::hold(named("locked"), shared_memory(), {.writers = Writers::row_locks});
  const auto shared = SharedTable::attach(named("locked"), {.access = Access::read_write});
  auto expected = all_rows_by(0, kRows);
  const auto index = test::any_rows(1, 100, kRows).to(at::kInt);
  const auto values = at::randint(1000, {100, test::kWords}, at::kLong);
  for (const auto duplicates : {Duplicates::last, Duplicates::accumulate, Duplicates::none}) {
    scatter_rows(expected, index, values, duplicates == Duplicates::none ? Duplicates::last : duplicates);
    shared.scatter(index.view({10, 10}), values.view({10, 10, test::kWords}), duplicates);
    EXPECT_TRUE(held.table().tensor().equal(expected));
  }
  shared.scatter(RowRange{0, 6, 2}, values.narrow(0, 0, 3));
  EXPECT_TRUE(held.table().tensor()[4].equal(values[2]));
  EXPECT_THROW(shared.scatter(at::tensor({1, 2, 1}), values.narrow(0, 0, 3), Duplicates::reject),
               DuplicateError);
  EXPECT_THROW(shared.scatter(at::tensor({1, 300}), values.narrow(0, 0, 2)), IndexError);
  EXPECT_THROW(shared.scatter(at::tensor({1, 2}), values), ShapeError);
  shared.scatter(at::_neg_view(at::tensor({-3}, at::kLong)), at::_neg_view(values.narrow(0, 0, 1)));
  EXPECT_TRUE(held.table().tensor()[3].equal(-values[0]));
  EXPECT_EQ(shared.finish_rows() + held.finish_rows(), 0);
}

TEST(SharedTable, UnderLocksNothingElseWrites) {
  const auto held = SharedTable::hold(named("only"), shared_memory(), {.writers = Writers::row_locks});
  const auto writer = SharedTable::attach(named("only"), {.access = Access::read_write});
  const auto reader = SharedTable::attach(named("only"));
  const auto index = at::arange(1);
  for (const auto* shared : {&held, &writer, &reader}) {
    auto rows = shared->table();
    EXPECT_THROW(rows.fill(Zeros{}), AccessError);
    EXPECT_THROW(rows.set(all_rows_by(1, kRows)), AccessError);
    EXPECT_THROW(scatter_rows(rows, index, all_rows_by(1, 1), Duplicates::last), AccessError);
  }
  EXPECT_EQ(
      refusal<AccessError>([&] { reader.scatter(index, all_rows_by(1, 1)); }),
      "the shared table '" + named("only") + "' of process " + std::to_string(::getpid()) +
          " is attached read_only; attach it read_write, which its holder permits by Writers::row_locks");
  auto tensor = reader.table().tensor();
  EXPECT_THROW(scatter_rows(tensor, index, all_rows_by(1, 1), Duplicates::last), FileError);
  EXPECT_THROW(static_cast<void>(reader.finish_rows()), AccessError);
  EXPECT_TRUE(held.table().tensor().equal(all_rows_by(0, kRows)));
}

/// A file that a process may have open or mapped.
using FileId = std::pair<dev_t, ino_t>;

FileId file_of(int fd) {
  struct stat is {};
  EXPECT_EQ(::fstat(fd, &is), 0);
  return {is.st_dev, is.st_ino};
}

int open_mode(int fd) { return ::fcntl(fd, F_GETFL) & O_ACCMODE; }

/// This process's descriptors of the file: that of the holder's table first, if it holds one.
std::vector<int> descriptors_of(const FileId& file) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat is {};
    const int fd = std::stoi(entry.path().filename());
    if (::fstat(fd, &is) == 0 && FileId(is.st_dev, is.st_ino) == file) found.push_back(fd);
  }
  return found;
}

/// The descriptors of a file that this process has besides `before`.
std::vector<int> new_descriptors(const FileId& file, const std::vector<int>& before) {
  auto found = descriptors_of(file);
  std::erase_if(found, [&](int fd) { return std::ranges::find(before, fd) != before.end(); });
  return found;
}

TEST(SharedTable, ReadersGetADescriptorThatIsOpenForReadingOnly) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "rows.npy").string();
  const auto mapped =
      Table::from_array(all_rows_by(0, kRows), {.placement = Placement::mapped, .file = path});
  const auto unnamed = Table::from_array(all_rows_by(0, kRows), {.placement = Placement::mapped});
  for (const auto& [table, fd] :
       {std::pair(shared_memory(), -1), {mapped, mapped.file()->fd()}, {unnamed, -1}})
    for (const auto writers : {Writers::holder, Writers::row_locks}) {
      const auto& memory = *table.memory();
      const auto file = file_of(fd >= 0 ? fd : std::max(memory.shared_fd(), memory.file_fd()));
      const auto held = SharedTable::hold(named("sealed"), table, {.writers = writers});
      const auto before = descriptors_of(file);
      const auto reader = SharedTable::attach(named("sealed"));
      const auto got = new_descriptors(file, before);
      ASSERT_EQ(got.size(), 1U);
      EXPECT_EQ(open_mode(got[0]), O_RDONLY);
      EXPECT_THROW(map_shared(table.placement(), Descriptor(::dup(got[0])), 0, table.bytes(), true),
                   MemoryError);
      EXPECT_NE(::ftruncate(got[0], 1), 0);
      EXPECT_TRUE(reader.table().tensor().equal(all_rows_by(0, kRows)));
    }
}

TEST(SharedTable, AHoldLeavesNothingThatTheNextOneCannotChange) {
  const auto table = shared_memory();
  std::optional<SharedTable> held = SharedTable::hold(named("again"), table);
  std::optional<SharedTable> reader = SharedTable::attach(named("again"));
  EXPECT_THROW(SharedTable::hold(named("again"), reader->table()), NameError);  // which seals nothing
  held.reset();
  const auto next = SharedTable::hold(named("again"), table, {.writers = Writers::row_locks});
  const auto writer = SharedTable::attach(named("again"), {.access = Access::read_write});
  writer.scatter(at::arange(kRows), all_rows_by(3, kRows));
  EXPECT_TRUE(reader->table().tensor().equal(all_rows_by(3, kRows)));
}

TEST(SharedTable, AReaderHoldsItForFurtherReaders) {
  for (const auto placement : {Placement::pageable, Placement::mapped}) {
    const auto table = Table::from_array(all_rows_by(4, kRows), {.placement = placement, .shared = true});
    const auto held = SharedTable::hold(named("first"), table, {.writers = Writers::row_locks});
    const auto reader = SharedTable::attach(named("first"));
    EXPECT_THROW(SharedTable::hold(named("second"), reader.table(), {.writers = Writers::row_locks}),
                 AccessError);
    const auto second = SharedTable::hold(named("second"), reader.table());
    EXPECT_EQ(second.access(), Access::read_only);
    EXPECT_THROW(second.scatter(at::arange(1), all_rows_by(1, 1)), AccessError);
    EXPECT_TRUE(SharedTable::attach(named("second")).table().tensor().equal(all_rows_by(4, kRows)));
    EXPECT_NO_THROW(static_cast<void>(SharedTable::attach(named("first"), {.access = Access::read_write})));
  }
}

TEST(SharedTable, AMappedTableIsHeldUnderTwoNamesAndPrefetchedFromItsFile) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "rows.npy").string();
  const auto file = Table::from_array(all_rows_by(5, kRows), {.placement = Placement::mapped, .file = path});
  const auto first = SharedTable::hold(named("one"), file);
  const auto second = SharedTable::hold(named("two"), first.table());
  const auto reader = SharedTable::attach(named("two"));
  const auto index = test::any_rows(3, 100, kRows);
  for (const auto* shared : {&first, &second, &reader}) {
    EXPECT_TRUE(shared->table().tensor().equal(all_rows_by(5, kRows)));
    EXPECT_GE(shared->table().memory()->file_fd(), 0) << "batched reads need it";
    Prefetcher ahead(shared->table(), at::kCPU);
    ahead.submit(index);
    EXPECT_TRUE(ahead.take().equal(test::rows_by(5, index)));
  }
}

/// The numbers of the locks' files among the mappings of a process that holds or writes a table.
std::vector<int> locks_of_this_process(const FileId& rows) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto is = std::filesystem::read_symlink(entry.path(), gone).string();
    const int fd = std::stoi(entry.path().filename());
    if (is.starts_with("/memfd:stbench") && file_of(fd) != rows) found.push_back(fd);
  }
  return found;
}

TEST(SharedTable, WritersAloneGetTheLocksWhoseSizeStays) {
  const auto table = shared_memory();
  const auto rows = file_of(table.memory()->shared_fd());
  const auto held = SharedTable::hold(named("size"), table, {.writers = Writers::row_locks});
  const auto locks = locks_of_this_process(rows);
  ASSERT_EQ(locks.size(), 1U);
  EXPECT_NE(::ftruncate(locks[0], 1), 0) << "a write to what is cut off would end each writer";
  EXPECT_NE(::ftruncate(locks[0], 1 << 30), 0);
  const auto reader = SharedTable::attach(named("size"));
  EXPECT_EQ(locks_of_this_process(rows), locks);
  const auto writer = SharedTable::attach(named("size"), {.access = Access::read_write});
  EXPECT_EQ(locks_of_this_process(rows).size(), 2U);
}

TEST(SharedTable, ReadersKeepItAfterItsHolderIsKilled) {
  const auto name = named("killed");
  Program holder, reader;
  EXPECT_EQ(holder.ask("hold " + name + " 1000 holder pageable"), "held");
  EXPECT_EQ(reader.ask("attach " + name + " read_only"), "attached 1000");
  EXPECT_TRUE(test::is_listed(name));
  holder.kill();
  EXPECT_EQ(reader.ask("gather 1 3000"), "0");
  EXPECT_FALSE(test::is_listed(name));
  EXPECT_THROW(SharedTable::attach(name, {.timeout = milliseconds(0)}), NameError);
  const auto next = SharedTable::hold(name, shared_memory(7));
  Program late;
  EXPECT_EQ(late.ask("attach " + name + " read_only"), "attached 300");
  EXPECT_EQ(reader.ask("gather 2 3000"), "0");
}

TEST(SharedTable, NothingIsLeftWhenAllAreKilled) {
  for (const std::string placement : {"pageable", "mapped"}) {
    const auto name = named("left-" + placement);
    std::set<test::Inode> memory;
    {
      std::array<Program, 3> programs;
      EXPECT_EQ(programs[0].ask("hold " + name + " 1000 row_locks " + placement), "held");
      memory = test::unnamed_memory_of(programs[0].pid());
      EXPECT_EQ(memory.size(), 2U) << "the rows and their locks";
      for (std::size_t k = 1; k < 3; ++k) {
        EXPECT_EQ(programs[k].ask("attach " + name + " read_write"), "attached 1000");
        programs[k].say("scatter 5 1000000");
      }
      programs[0].kill();
      for (const auto& inode : memory) EXPECT_TRUE(test::is_in_use(inode)) << "two processes live";
    }
    EXPECT_FALSE(test::is_listed(name));
    for (const auto& inode : memory) EXPECT_FALSE(test::is_in_use(inode)) << inode.second;
  }
}

TEST(SharedTable, AForkedChildKeepsTheRowsAndNotTheName) {
  const auto name = named("forked");
  Program holder, reader;
  EXPECT_EQ(holder.ask("hold " + name + " 1000 row_locks pageable"), "held");
  const auto child = static_cast<pid_t>(std::stol(holder.ask("child")));
  EXPECT_EQ(reader.ask("attach " + name + " read_write"), "attached 1000");  // the holder still answers
  holder.kill();
  EXPECT_FALSE(test::is_listed(name));
  EXPECT_EQ(::kill(child, 0), 0) << "the child lives";
  const auto next = SharedTable::hold(name, shared_memory());
  EXPECT_EQ(reader.ask("scatter 1 10"), "written");
  ::kill(child, SIGKILL);
}

TEST(SharedTable, ForkedChildrenWriteUnderLocksAndLetGo) {
  std::optional<SharedTable> held =
      SharedTable::hold(named("child"), shared_memory(), {.writers = Writers::row_locks});
  EXPECT_EQ(in_forked_child([&] {
              held->scatter(at::arange(kRows), all_rows_by(6, kRows));
              held.reset();  // joins no thread of the parent
              return true;
            }),
            "right");
  EXPECT_TRUE(held->table().tensor().equal(all_rows_by(6, kRows)));
  EXPECT_EQ(SharedTable::attach(named("child")).holder(), ::getpid());
}

TEST(SharedTable, ANameIsFreeOnceItsHolderLetsGo) {
  const auto files = test::open_files();
  for (int k = 0; k < 3; ++k) {
    const auto first = SharedTable::hold(named("first"), shared_memory(1));
    const auto second = SharedTable::hold(named("second"), shared_memory(2));
    const auto copy = SharedTable(first);
    const auto one = SharedTable::attach(named("first")), two = SharedTable::attach(named("second"));
    EXPECT_TRUE(one.table().tensor().equal(all_rows_by(1, kRows)));
    EXPECT_TRUE(two.table().tensor().equal(all_rows_by(2, kRows)));
    EXPECT_EQ(refusal<NameError>([] { SharedTable::hold(named("first"), shared_memory()); }),
              "the shared table '" + named("first") + "' is held by process " + std::to_string(::getpid()) +
                  " already; end that, or choose another name");
  }
  EXPECT_FALSE(test::is_listed(named("first")));
  EXPECT_EQ(test::open_files(), files);
}

TEST(SharedTable, AFileIsMappedByAll) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "rows.npy").string();
  const auto file = Table::from_array(all_rows_by(1, kRows), {.placement = Placement::mapped, .file = path});
  const auto held = SharedTable::hold(named("file"), file, {.writers = Writers::row_locks});
  const auto writer = SharedTable::attach(named("file"), {.access = Access::read_write});
  const auto reader = SharedTable::attach(named("file"));
  EXPECT_EQ(reader.table().placement(), Placement::mapped);
  writer.scatter(at::arange(kRows), all_rows_by(8, kRows));
  for (const auto* shared : {&writer, &held, &reader}) shared->flush();
  EXPECT_TRUE(reader.table().tensor().equal(all_rows_by(8, kRows)));
  EXPECT_TRUE(Table::copied_from_file(path).tensor().equal(all_rows_by(8, kRows)));
  std::filesystem::resize_file(path, 5000);
  EXPECT_THAT(refusal<FileError>([&] { static_cast<void>(reader.table().tensor()); }),
              HasSubstr("was shrunk"));
  EXPECT_THROW(static_cast<void>(held.table().tensor()), FileError);
}

TEST(SharedTable, AFileThatIsOpenReadOnlyHasNoLocks) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "rows.npy").string();
  static_cast<void>(Table::from_array(all_rows_by(1, kRows), {.placement = Placement::mapped, .file = path}));
  const auto file = Table::from_file(path, {.placement = Placement::mapped});
  EXPECT_THAT(
      refusal<FileError>([&] { SharedTable::hold(named("r"), file, {.writers = Writers::row_locks}); }),
      HasSubstr("'rows.npy' is open read_only"));
  const auto held = SharedTable::hold(named("r"), file);
  EXPECT_THROW(held.scatter(at::arange(1), all_rows_by(1, 1)), FileError);
  EXPECT_TRUE(SharedTable::attach(named("r")).table().tensor().equal(all_rows_by(1, kRows)));
}

TEST(SharedTable, EmptyTablesAndTablesOfAnyShapeAreShared) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{0, 4}, {5, 0}, {7}, {2, 3, 4, 5}}) {
    const auto table =
        Table::filled(sizes, at::kHalf, Uniform{0, 1, 3}, {.placement = Placement::hugepage, .shared = true});
    const auto held = SharedTable::hold(named("shape"), table, {.writers = Writers::row_locks});
    const auto shared = SharedTable::attach(
        named("shape"), {.access = Access::read_write, .dtype = at::kHalf, .sizes = sizes});
    EXPECT_TRUE(shared.table().tensor().equal(table.tensor()));
    shared.scatter(RowRange{0, sizes[0]}, table.tensor() + 1);
    EXPECT_TRUE(shared.table().tensor().equal(table.tensor()));
  }
}

/// Listens in the place of a holder.
Descriptor listen_as(const SocketAddress& address) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (::bind(socket.get(), address.get(), address.length) != 0 || ::listen(socket.get(), 4) != 0) return {};
  return socket;
}

/// What attach() says if a holder answers so.
std::string attached_to(const std::function<void(int connection)>& answer) {
  const auto socket = listen_as(shared_address(named("fake")));
  std::thread fake([&] {
    const Descriptor connection(::accept(socket.get(), nullptr, nullptr));
    answer(connection.get());
  });
  auto said = refusal<SharingError>([] { SharedTable::attach(named("fake")); });
  fake.join();
  return said;
}

TEST(SharedTable, HoldersThatAnswerOtherwiseAreRefused) {
  EXPECT_THAT(attached_to([](int) {}), HasSubstr("ended before it handed the table over"));
  EXPECT_THAT(attached_to([](int to) { EXPECT_EQ(::send(to, "hello", 5, 0), 5); }),
              HasSubstr("is no holder of speedtorch"));
  EXPECT_THAT(attached_to([](int to) {
                SharedOffer offer;
                offer.version = 1;
                EXPECT_EQ(::send(to, &offer, 20, 0), 20);
              }),
              AllOf(HasSubstr("process " + std::to_string(::getpid())), HasSubstr("shares by version 1"),
                    HasSubstr("this process by version 2; use one version")));
  EXPECT_THAT(attached_to([](int to) {
                SharedOffer offer;
                offer.dimensions = 1;
                EXPECT_GT(::send(to, &offer, sizeof(offer), 0), 0);
              }),
              HasSubstr("gives no descriptors"));
}

SharedOffer offer_of(const Table& table, std::int64_t locks) {
  SharedOffer offer;
  offer.dtype = static_cast<std::uint8_t>(table.dtype());
  offer.placement = static_cast<std::uint8_t>(table.placement());
  offer.writers = static_cast<std::uint8_t>(locks > 0 ? Writers::row_locks : Writers::holder);
  offer.dimensions = static_cast<std::uint8_t>(table.sizes().size());
  offer.bytes = table.bytes();
  offer.locks = locks;
  std::ranges::copy(table.sizes(), offer.sizes.begin());
  return offer;
}

TEST(SharedTable, DescriptorsThatCannotBeSentAreNamed) {
  const auto table = shared_memory();
  const Handover holder(named("closed"), offer_of(table, 0), {.reading = 1'000'000});
  EXPECT_THAT(refusal<SharingError>([] { SharedTable::attach(named("closed")); }),
              AllOf(HasSubstr("process " + std::to_string(::getpid())),
                    HasSubstr("cannot send the descriptors of its memory: Bad file descriptor")));
}

TEST(SharedTable, MemoryThatIsTooShortIsRefusedBeforeItIsTouched) {
  const auto table = shared_memory(),
             half = Table::filled({kRows / 2, 1}, at::kLong, Zeros{},
                                  {.placement = Placement::pageable, .shared = true});
  const int rows = table.memory()->shared_fd(), few = half.memory()->shared_fd();
  for (const HandedDescriptors& given :
       {HandedDescriptors{few, rows, rows}, {rows, few, rows}, {rows, rows, few}}) {
    const Handover holder(named("short"), offer_of(table, 64), given);
    const auto access = given.reading == few ? Access::read_only : Access::read_write;
    EXPECT_THAT(refusal<FileError>([&] { SharedTable::attach(named("short"), {.access = access}); }),
                HasSubstr("bytes are mapped, and it has 1200"));
  }
}

TEST(SharedTable, AFileWithoutANameThatShrankIsRefused) {
  const auto table = Table::from_array(all_rows_by(1, kRows), {.placement = Placement::mapped});
  const auto held = SharedTable::hold(named("shrunk"), table);
  const auto reader = SharedTable::attach(named("shrunk"));
  ASSERT_EQ(::ftruncate(table.memory()->file_fd(), 5000), 0);
  for (const auto* rows : {&table, &held.table(), &reader.table()})
    EXPECT_THAT(refusal<FileError>([&] { static_cast<void>(rows->tensor()); }), HasSubstr("was shrunk"));
}

TEST(SharedTable, ASilentHolderIsRefusedAfterTheTimeOut) {
  const auto socket = listen_as(shared_address(named("silent")));
  EXPECT_THAT(
      refusal<SharingError>([] { SharedTable::attach(named("silent"), {.timeout = milliseconds(0)}); }),
      AllOf(HasSubstr("does not answer within 1000 ms"), HasSubstr(std::to_string(::getpid()))));
}

TEST(SharedTable, RefusalsNameTheThingAndWhatWouldBeRight) {
  const auto held = SharedTable::hold(named("held"), shared_memory());
  EXPECT_THAT(refusal<ShapeError>([] {
                SharedTable::attach(named("held"), {.dtype = at::kFloat, .sizes = {300, 4}});
              }),
              AllOf(HasSubstr("is Long [300, 100], and Float [300, 4] is demanded")));
  EXPECT_THROW(SharedTable::attach(named("held"), {.sizes = {300}}), ShapeError);
  EXPECT_THAT(refusal<NameError>([] { SharedTable::attach(named("none"), {.timeout = milliseconds(5)}); }),
              AllOf(HasSubstr("holds the shared table '" + named("none") + "' after 5 ms"),
                    HasSubstr("start its holder first")));
  EXPECT_THAT(
      refusal<PlacementError>([] {
        SharedTable::hold(named("own"), Table::filled({2, 2}, at::kFloat, Zeros{}, {Placement::pageable}));
      }),
      AllOf(HasSubstr("process's own (pageable)"), HasSubstr("TableOptions::shared")));
  for (const auto& name :
       {std::string(), std::string(81, 'x'), std::string("a\nb"), std::string("a\0b", 3)}) {
    EXPECT_THROW(SharedTable::attach(name), OptionError);
    EXPECT_THROW(SharedTable::hold(name, shared_memory()), OptionError);
  }
  EXPECT_THROW(SharedTable::attach(named("held"), {.timeout = milliseconds(-1)}), OptionError);
  EXPECT_THROW(SharedTable::attach(named("held"), {.lock_timeout = milliseconds(-1)}), OptionError);
  const auto deep = Table::filled(std::vector<std::int64_t>(33, 1), at::kFloat, Zeros{},
                                  {.placement = Placement::pageable, .shared = true});
  EXPECT_THAT(refusal<ShapeError>([&] { SharedTable::hold(named("deep"), deep); }),
              HasSubstr("33 dimensions"));
}

TEST(SharedTable, ShortMemoryIsAnErrorThatNamesTheLimit) {
  const auto name = named("short");  // the child has another process number
  const auto held = SharedTable::hold(name, Table::empty({std::int64_t{64} << 20}, at::kByte,
                                                         {.placement = Placement::pageable, .shared = true}));
  const auto limited = [](int resource, const std::function<void()>& act) {
    return in_child([&] {
      const rlimit limit{std::uint64_t{16} << 20, std::uint64_t{16} << 20};
      ::setrlimit(static_cast<__rlimit_resource>(resource), &limit);
      act();
      return std::string("done");
    });
  };
  if (test::memory_is_the_programs()) {
    EXPECT_THAT(limited(RLIMIT_AS, [&] { SharedTable::attach(name); }),
                HasSubstr("threw: cannot allocate 67108864 bytes of shared pageable memory"));
  }
  EXPECT_THAT(limited(RLIMIT_FSIZE,
                      [] {
                        Table::empty({std::int64_t{64} << 20}, at::kByte,
                                     {.placement = Placement::pageable, .shared = true});
                      }),
              HasSubstr("the limit is RLIMIT_FSIZE (ulimit -f)"));
}

/// Connects to an address, and returns how many bytes were got.
std::string got_from(const SocketAddress& address) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), address.get(), address.length) != 0) return "no connection";
  std::array<char, 1000> bytes{};
  return std::to_string(::recv(socket.get(), bytes.data(), bytes.size(), 0)) + " bytes";
}

TEST(SharedTable, AnotherUserGetsNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const auto name = named("user");
  const auto address = shared_address(name);
  const auto held = SharedTable::hold(name, shared_memory());
  EXPECT_EQ(got_from(address), std::to_string(sizeof(SharedOffer)) + " bytes");
  EXPECT_EQ(in_child([&] { return ::setuid(kNobody) == 0 ? got_from(address) : "still root"; }), "0 bytes");
  EXPECT_THAT(in_child([&] {
                if (::setuid(kNobody) != 0) return std::string("still root");
                SharedTable::attach(name, {.timeout = milliseconds(0)});
                return std::string("attached");
              }),
              HasSubstr("threw: no process of user 65534 holds the shared table"));
}

TEST(SharedTable, AnAddressThatAnotherUserTookIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const auto address = shared_address(named("taken"));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = test::fork_at_rest();
  if (child == 0) {
    const bool became = ::setuid(kNobody) == 0;
    const auto socket = listen_as(address);
    (void)!::write(ends[1], became && socket.valid() ? "!" : "?", 1);
    for (;;) ::pause();
  }
  char said = 0;
  EXPECT_EQ(::read(ends[0], &said, 1), 1);
  EXPECT_EQ(said, '!');
  EXPECT_THAT(refusal<AccessError>([] { SharedTable::attach(named("taken")); }),
              AllOf(HasSubstr("process " + std::to_string(child)), HasSubstr("is of user 65534"),
                    HasSubstr("this process is of user 0")));
  EXPECT_EQ(refusal<NameError>([] { SharedTable::hold(named("taken"), shared_memory()); }),
            "the shared table '" + named("taken") + "' is held by process " + std::to_string(child) +
                " of user 65534 already; choose another name");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int end : ends) ::close(end);
}

}  // namespace
}  // namespace speedtorch

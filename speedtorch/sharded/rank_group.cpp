// LibTorch was compiled with Gloo and asks for this in each file that uses it.
#define USE_C10D_GLOO
#include "speedtorch/sharded/rank_group.h"

#include <ATen/ops/empty.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "speedtorch/error.h"

namespace speedtorch {
namespace {

using Gloo = c10d::ProcessGroupGloo;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::optional<int> number_of(const char* name) {
  const auto text = variable(name);
  if (text.empty()) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  throw GroupError("the variable " + std::string(name) + " is '" + text + "'; a whole number is needed");
}

/// The variables of one launcher. `local_size`: of the ranks on this host, if the launcher says it.
struct Launcher {
  const char* rank;
  const char* size;
  const char* local_size;
};
constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE"}};

/// The first launcher whose variables are there, and what they say.
std::optional<std::pair<const Launcher*, RankGroup::Place>> launched() {
  for (const auto& launcher : kLaunchers) {
    const auto rank = number_of(launcher.rank), size = number_of(launcher.size);
    if (rank && size) return std::pair(&launcher, RankGroup::Place{*rank, *size});
  }
  return std::nullopt;
}

constexpr std::string_view kTimeout = ", time-out ";

/// The end of a group's name.
std::string timeout_text(std::chrono::milliseconds timeout) {
  return std::string(kTimeout) + std::to_string(timeout.count()) + " ms)";
}

/// The first line of what LibTorch or Gloo says, without its stack.
std::string first_line(const std::exception& error) {
  const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = of_libtorch != nullptr ? of_libtorch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

/// The network interface of the endpoint; empty if its address decides.
std::string interface_of(const GroupOptions& options) {
  if (!options.interface.empty()) return options.interface;
  if (const auto named = variable("GLOO_SOCKET_IFNAME"); !named.empty())
    return named.substr(0, named.find(','));
  return options.address == "127.0.0.1" || options.address == "localhost" ? "127.0.0.1" : "";
}

std::shared_ptr<::gloo::transport::Device> device_of(const std::string& interface) {
  if (interface.empty()) return Gloo::createDefaultDevice();
  if (::if_nametoindex(interface.c_str()) != 0) return Gloo::createDeviceForInterface(interface);
  return Gloo::createDeviceForHostname(interface);
}

/// Gloo writes to the sockets of ranks that may be dead. SIGPIPE's default action, which Python turns off and
/// C++ does not, then ends the process without a word.
bool pipe_signal_ends_process() {
  struct sigaction now {};
  return ::sigaction(SIGPIPE, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == SIG_DFL;
}

/// Blocks the signal on this thread, and on the threads that start meanwhile, if it would end the process.
class WithoutPipeSignal {
 public:
  WithoutPipeSignal() : blocks_(pipe_signal_ends_process()) {
    if (!blocks_) return;
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutPipeSignal() {
    if (!blocks_ || ::sigismember(&before_, SIGPIPE) == 1) return;
    const timespec at_once{};
    while (::sigtimedwait(&pipe_, nullptr, &at_once) ==
           SIGPIPE) {  // one that this thread's own writes caused
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutPipeSignal(const WithoutPipeSignal&) = delete;
  WithoutPipeSignal& operator=(const WithoutPipeSignal&) = delete;

 private:
  bool blocks_;
  sigset_t pipe_{}, before_{};
};

/// The threads that this thread starts meanwhile do not preempt others when they wake (SCHED_BATCH). Gloo's
/// thread often wakes while another thread holds its socket. Where it preempts that thread, on the same core,
/// it polls the socket in vain until its time slice of some 3 ms ends. A gather of 1,536 rows of 264 B took
/// 2.0 ms that way, and takes 0.8 (2 ranks, 2 cores; sharded/changes.txt of the Zen 3's results).
class WithBatchThreads {
 public:
  WithBatchThreads() : changes_(::sched_getscheduler(0) == SCHED_OTHER) { set(SCHED_BATCH); }
  ~WithBatchThreads() { set(SCHED_OTHER); }
  WithBatchThreads(const WithBatchThreads&) = delete;
  WithBatchThreads& operator=(const WithBatchThreads&) = delete;

 private:
  void set(int policy) const {
    const sched_param no_priority{};
    if (changes_)
      ::sched_setscheduler(0, policy, &no_priority);  // of this thread; refused, it is only slower
  }
  bool changes_;
};

/// For groups whose threads the library does not start.
void ignore_pipe_signal() {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  if (pipe_signal_ends_process()) ::sigaction(SIGPIPE, &ignore, nullptr);
}

c10::intrusive_ptr<c10d::Store> store_of(int rank, int size, const GroupOptions& options) {
  c10d::TCPStoreOptions with;
  with.port = static_cast<std::uint16_t>(options.port);
  with.isServer =
      rank == 0 && variable("TORCHELASTIC_USE_AGENT_STORE") != "True";  // torchrun's agent serves it
  with.numWorkers = static_cast<std::size_t>(size);
  with.waitWorkers = false;  // the group waits
  with.timeout = options.timeout;
  with.multiTenant = true;  // a process may make several groups
  return c10::make_intrusive<c10d::PrefixStore>("speedtorch/" + variable("TORCHELASTIC_RESTART_COUNT"),
                                                c10::make_intrusive<c10d::TCPStore>(options.address, with));
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::string asked_by(int rank) { return "asked by " + std::to_string(rank); }

/// Waits until each other rank has asked for a group's number, and answers all.
std::string answer_all(c10d::Store& store, int size) {
  std::vector<std::string> asked, absent;
  for (int r = 1; r < size; ++r) asked.push_back(asked_by(r));
  try {
    if (!asked.empty()) store.wait(asked);
  } catch (const std::exception&) {
    for (int r = 1; r < size; ++r)
      if (!store.check({asked_by(r)})) absent.push_back(std::to_string(r));
    std::string names;
    for (const auto& name : absent) names += (names.empty() ? "" : ", ") + name;
    throw GroupError("no answer from rank " + names);
  }
  const auto number = std::to_string(store.add("groups", 1));
  for (const auto& key : asked) {
    const auto question = text_of(store.get(key));
    store.deleteKey(key);
    store.set("answer to " + question, bytes_of(number));
  }
  return number;
}

constexpr std::chrono::milliseconds kAskAgain{10};

/// Asks rank 0 for a group's number. A question that nobody answered in time is taken back.
std::string ask(c10d::Store& store, int rank) {
  std::random_device random;
  const auto question =
      std::to_string(rank) + "/" + std::to_string(random()) + "/" + std::to_string(random());
  store.set(asked_by(rank), bytes_of(question));
  try {
    return text_of(store.get("answer to " + question));
  } catch (const std::exception&) {
    try {
      store.deleteKey(asked_by(rank));
    } catch (const std::exception&) {  // the store has gone, and the question with it
    }
    throw GroupError("no answer from rank 0");
  }
}

/// The keys of one group of these ranks. Rank 0 numbers the groups when all ranks have come, because what a
/// rank attempts alone, and leaves in the store, is not the other ranks' group.
c10::intrusive_ptr<c10d::Store> keys_of_group(int rank, int size, GroupOptions options) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + options.timeout;
  for (;;) {
    const auto store = store_of(rank, size, options);
    try {
      const auto number = rank == 0 ? answer_all(*store, size) : ask(*store, rank);
      return c10::make_intrusive<c10d::PrefixStore>("group " + number, store);
    } catch (const std::exception&) {
      options.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
      if (rank == 0 || options.timeout <= kAskAgain) throw;
    }
    // It was the store of the group before, which rank 0 has just ended.
    std::this_thread::sleep_for(kAskAgain);
  }
}

c10::intrusive_ptr<c10d::Backend> connected(int rank, int size, const std::string& interface,
                                            const GroupOptions& options) {
  const WithoutPipeSignal blocked;
  const WithBatchThreads batch;
  auto with = Gloo::Options::create(options.timeout);
  with->devices.push_back(device_of(interface));
  return c10::make_intrusive<Gloo>(keys_of_group(rank, size, options), rank, size, with);
}

GroupOptions with_address(GroupOptions options) {
  if (options.address.empty()) options.address = variable("MASTER_ADDR");
  if (options.port == 0)
    options.port = number_of("MASTER_PORT").value_or(c10d::TCPStoreOptions::kDefaultPort);
  if (options.port < 0 || options.port > 65535)
    throw OptionError("the group's port is " + std::to_string(options.port) + "; it is 1 to 65535");
  return options;
}

constexpr int kTag = 0x57AB1E;  // of messages from one rank to another

at::Tensor bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

}  // namespace

struct RankGroup::Impl {
  c10::intrusive_ptr<c10d::ProcessGroup> given;  // keeps the caller's group
  c10::intrusive_ptr<c10d::Backend> backend;
  std::string name;
  std::string lost = {};  // what ended the group

  [[nodiscard]] int rank() const { return backend->getRank(); }
  [[nodiscard]] int size() const { return backend->getSize(); }

  /// The longest wait for a message. Gloo's messages take the time-out of the group's start by themselves.
  [[nodiscard]] std::chrono::milliseconds message_timeout() const {
    const bool gloo = backend->getBackendName() == c10d::GLOO_BACKEND_NAME;
    return gloo ? backend->getBackendOptions()->timeout : kNoTimeout;
  }

  [[noreturn]] void lose(const std::string& what) {
    lost = what;
    throw GroupError(name + " lost its group: " + what);
  }
  void require_whole() const {
    if (!lost.empty()) throw GroupError(name + " lost its group before: " + lost);
  }
  /// Calls c10d's `begin`. @throws GroupError
  template <class Begin>
  c10::intrusive_ptr<c10d::Work> begun(Begin begin) {
    require_whole();
    const WithoutPipeSignal blocked;
    try {
      return begin();
    } catch (const std::exception& error) {
      lose(first_line(error));
    }
  }
  /// Waits for what `begin` starts. @throws GroupError
  template <class Begin>
  void complete(Begin begin) {
    const auto work = begun(begin);
    try {
      work->wait();
    } catch (const std::exception& error) {
      lose(first_line(error));
    }
  }
};

struct RankGroup::Transfer::Work {
  std::shared_ptr<Impl> group;
  at::Tensor send, receive;  // in use until the work is done or gone
  c10::intrusive_ptr<c10d::Work> work;
  std::chrono::milliseconds timeout = kNoTimeout;
};

RankGroup::RankGroup(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  if (!group) throw GroupError("the process group is null");
  ignore_pipe_signal();
  try {
    auto backend = group->getBackend(c10::kCPU);
    const auto name = "rank " + std::to_string(group->getRank()) + " of " + std::to_string(group->getSize()) +
                      " (the caller's group, " + backend->getBackendName() + ")";
    // An error that ends the group for one table ends it for all tables of its ranks.
    static std::mutex guard;
    static std::map<const c10d::Backend*, std::weak_ptr<Impl>> known;
    const std::lock_guard locked(guard);
    std::erase_if(known, [](const auto& each) { return each.second.expired(); });
    auto& before = known[backend.get()];
    impl_ = before.lock();
    if (!impl_) before = impl_ = std::make_shared<Impl>(Impl{group, std::move(backend), name});
  } catch (const std::exception& error) {
    throw GroupError("the process group has no backend for the CPU, such as gloo: " + first_line(error));
  }
}

RankGroup::RankGroup(int rank, int size, const GroupOptions& wishes) {
  const auto options = with_address(wishes);
  if (size < 1 || rank < 0 || rank >= size)
    throw OptionError("rank " + std::to_string(rank) + " of " + std::to_string(size) +
                      ": ranks are 0 to size - 1");
  const auto interface = interface_of(options);
  const auto name = "rank " + std::to_string(rank) + " of " + std::to_string(size) + " (gloo on " +
                    (interface.empty() ? "the address of this host's name" : interface) + ", rank 0 at " +
                    options.address + ":" + std::to_string(options.port) + timeout_text(options.timeout);
  if (options.address.empty()) {
    throw GroupError(name + " has no address of rank 0; set GroupOptions::address or MASTER_ADDR");
  }
  try {
    impl_ = std::make_shared<Impl>(Impl{{}, connected(rank, size, interface, options), name});
  } catch (const std::exception& error) {
    throw GroupError(name + " cannot make its group: " + first_line(error));
  }
  barrier();  // the store that rank 0 serves must live until all are connected
}

RankGroup RankGroup::from_environment(const GroupOptions& options) {
  const auto found = launched();
  if (!found)
    throw GroupError(
        "no launcher's variables: RANK and WORLD_SIZE, OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE, "
        "PMI_RANK and PMI_SIZE, or SLURM_PROCID and SLURM_NTASKS are needed");
  const auto [launcher, place] = *found;
  auto with = options;
  const bool nowhere = with.address.empty() && variable("MASTER_ADDR").empty();
  if (nowhere && (place.size == 1 || variable(launcher->local_size) == std::to_string(place.size)))
    with.address = "127.0.0.1";
  return RankGroup(place.rank, place.size, with);
}

std::optional<RankGroup::Place> RankGroup::place_from_environment() {
  const auto found = launched();
  return found ? std::optional(found->second) : std::nullopt;
}

int RankGroup::rank() const { return impl_->rank(); }
int RankGroup::size() const { return impl_->size(); }
const std::string& RankGroup::name() const { return impl_->name; }

void RankGroup::set_timeout(std::chrono::milliseconds timeout) {
  impl_->backend->setTimeout(timeout);
  const auto told = impl_->name.find(kTimeout);
  if (told != std::string::npos) impl_->name.replace(told, std::string::npos, timeout_text(timeout));
}

RankGroup::Transfer::Transfer(Work work) : work_(std::make_shared<Work>(std::move(work))) {}

RankGroup::Transfer RankGroup::start(at::Tensor send, std::vector<std::int64_t> to, at::Tensor receive,
                                     std::vector<std::int64_t> from) const {
  auto work = impl_->begun([&] { return impl_->backend->alltoall_base(receive, send, from, to, {}); });
  return Transfer({impl_, std::move(send), std::move(receive), std::move(work)});
}

RankGroup::Transfer RankGroup::send(at::Tensor bytes, int to) const {
  std::vector<at::Tensor> one = {std::move(bytes)};
  auto work = impl_->begun([&] { return impl_->backend->send(one, to, kTag); });
  return Transfer({impl_, one.front(), {}, std::move(work), impl_->message_timeout()});
}

RankGroup::Transfer RankGroup::receive(at::Tensor bytes, int from) const {
  std::vector<at::Tensor> one = {std::move(bytes)};
  auto work = impl_->begun([&] { return impl_->backend->recv(one, from, kTag); });
  return Transfer({impl_, {}, one.front(), std::move(work), impl_->message_timeout()});
}

void RankGroup::abandon(const std::string& why) const {
  if (impl_->lost.empty()) impl_->lost = why;
}

void RankGroup::Transfer::wait() {
  try {
    work_->work->wait(work_->timeout);
  } catch (const std::exception& error) {
    work_->group->lose(first_line(error));
  }
}

void RankGroup::all_gather(const at::Tensor& mine, at::Tensor& all) const {
  auto from = mine;  // c10d's parameters are not const
  impl_->complete([&] { return impl_->backend->_allgather_base(all, from); });
}

void RankGroup::reduce_scatter(at::Tensor& parts, at::Tensor& mine) const {
  impl_->complete([&] { return impl_->backend->_reduce_scatter_base(mine, parts); });
}

std::vector<std::int64_t> RankGroup::exchange(std::span<const std::int64_t> numbers, int per_rank) const {
  if (per_rank < 0 || std::ssize(numbers) != std::int64_t{per_rank} * size())
    throw OptionError(std::to_string(numbers.size()) + " numbers for " + std::to_string(size()) + " ranks; " +
                      std::to_string(per_rank) + " for each are needed");
  const auto piece = static_cast<std::int64_t>(sizeof(std::int64_t)) * per_rank;
  const auto send = bytes(piece * size()), receive = bytes(piece * size());
  std::memcpy(send.data_ptr(), numbers.data(), numbers.size_bytes());
  const std::vector<std::int64_t> splits(static_cast<std::size_t>(size()), piece);
  start(send, splits, receive, splits).wait();
  std::vector<std::int64_t> answers(numbers.size());
  std::memcpy(answers.data(), receive.const_data_ptr(), receive.nbytes());
  return answers;
}

std::vector<std::string> RankGroup::gather_texts(const std::string& mine) const {
  const auto ranks = static_cast<std::size_t>(size());
  const auto length = static_cast<std::int64_t>(mine.size());
  const auto lengths = exchange(std::vector<std::int64_t>(ranks, length), 1);
  std::int64_t total = 0;
  for (const auto each : lengths) total += each;
  const auto send = bytes(length * size()), receive = bytes(total);
  auto* to = static_cast<char*>(send.data_ptr());
  for (std::size_t r = 0; r < ranks; ++r) to = std::copy_n(mine.data(), mine.size(), to);
  start(send, std::vector<std::int64_t>(ranks, length), receive, lengths).wait();
  std::vector<std::string> texts;
  const auto* from = static_cast<const char*>(receive.const_data_ptr());
  for (const auto each : lengths) {
    texts.emplace_back(from, static_cast<std::size_t>(each));
    from += each;
  }
  return texts;
}

void RankGroup::barrier() const {
  static_cast<void>(exchange(std::vector<std::int64_t>(static_cast<std::size_t>(size())), 1));
}

void RankGroup::require_agreement(const Facts& facts) const {
  const auto compare = [](const std::string& name, const std::vector<std::string>& said) {
    for (std::size_t r = 1; r < said.size(); ++r) {
      if (said[r] == said[0]) continue;
      throw DisagreementError("the ranks disagree on " + name + ": rank 0 has " + said[0] + ", rank " +
                              std::to_string(r) + " has " + said[r]);
    }
  };
  // Alone and first: another version may have other facts.
  compare("the library's version", gather_texts(SPEEDTORCH_VERSION));
  std::vector<std::vector<std::string>> said;
  said.reserve(facts.size());
  for (const auto& [name, value] : facts) said.push_back(gather_texts(value));
  for (std::size_t k = 0; k < facts.size(); ++k) compare(facts[k].first, said[k]);
}

}  // namespace speedtorch

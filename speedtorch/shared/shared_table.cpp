#include "speedtorch/shared/shared_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "speedtorch/error.h"
#include "speedtorch/memory/shared_memory.h"
#include "speedtorch/shared/handover.h"
#include "speedtorch/shared/row_locks.h"
#include "speedtorch/system/new_file.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

constexpr std::chrono::milliseconds kLongestLock{1'000'000'000};

std::string layout(at::ScalarType dtype, at::IntArrayRef sizes) {
  return std::string(c10::toString(dtype)) + " " + c10::str(sizes);
}

void require_lock_timeout(std::chrono::milliseconds timeout) {
  if (timeout.count() >= 0 && timeout <= kLongestLock) return;
  throw OptionError("lock_timeout is " + std::to_string(timeout.count()) + " ms; it is 0 to " +
                    std::to_string(kLongestLock.count()));
}

/// The memory of a shared table as functions of this process may use it.
class SharedRows final : public Memory {
 public:
  /// @param fd of the memory's file
  /// @param refusal why this process may not write now; empty if it may
  SharedRows(const std::shared_ptr<Memory>& beneath, int fd, std::function<std::string()> refusal)
      : Memory(beneath), beneath_(beneath), fd_(fd), refusal_(std::move(refusal)) {}
  [[nodiscard]] Placement placement() const override { return beneath_->placement(); }
  [[nodiscard]] std::byte* data() const override { return beneath_->data(); }
  [[nodiscard]] int shared_fd() const override { return fd_; }
  [[nodiscard]] bool writable() const override { return beneath_->writable(); }
  void check() const override { beneath_->check(); }
  void require_writable() const override {
    if (const auto why = refusal_(); !why.empty()) throw AccessError(why);
    beneath_->require_writable();
  }

 private:
  std::shared_ptr<Memory> beneath_;
  int fd_;
  std::function<std::string()> refusal_;
};

/// The file of a table's memory, and where its elements begin.
struct SharedFile {
  int fd = -1;
  std::int64_t offset = 0;
};

/// @throws PlacementError
SharedFile file_of(const std::string& name, const Table& table) {
  const auto placement = table.placement();
  if (const auto file = table.file()) return {file->fd(), file->data_offset()};
  if (placement == Placement::mapped) return {table.memory()->file_fd()};
  const bool fits = placement == Placement::pageable || placement == Placement::hugepage;
  if (fits && table.memory()->shared_fd() >= 0) return {table.memory()->shared_fd()};
  throw PlacementError("the memory of " + shared_title(name) + " is this process's own (" +
                       std::string(to_string(placement)) +
                       "); create the table pageable or hugepage with TableOptions::shared, or mapped");
}

/// Memory without a name keeps its size, so that no process can take it from under the others. If the holder
/// alone writes, no other process can map it writable.
void seal(const SharedFile& place, Writers writers) {
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | (writers == Writers::holder ? F_SEAL_FUTURE_WRITE : 0);
  if (::fcntl(place.fd, F_ADD_SEALS, seals) != 0) refuse_file("memory to share", "cannot be sealed");
}

SharedOffer offer_of(const std::string& name, const Table& table, const SharedFile& place, Writers writers) {
  const auto sizes = table.sizes();
  if (sizes.size() > SharedOffer::kDimensions)
    throw ShapeError(shared_title(name) + " has " + std::to_string(sizes.size()) +
                     " dimensions; it may have " + std::to_string(SharedOffer::kDimensions));
  SharedOffer offer;
  offer.dtype = static_cast<std::uint8_t>(table.dtype());
  offer.placement = static_cast<std::uint8_t>(table.placement());
  offer.writers = static_cast<std::uint8_t>(writers);
  offer.dimensions = static_cast<std::uint8_t>(sizes.size());
  offer.offset = place.offset;
  offer.bytes = std::max<std::int64_t>(1, table.bytes());
  std::ranges::copy(sizes, offer.sizes.begin());
  return offer;
}

std::int64_t row_bytes_of(const Table& table) { return table.rows() > 0 ? table.bytes() / table.rows() : 0; }

/// A forked child leaks it.
using HeldName = std::unique_ptr<Handover, void (*)(Handover*)>;

HeldName held(const std::string& name, const SharedOffer& offer, std::vector<int> descriptors) {
  return {new Handover(name, offer, std::move(descriptors)), [](Handover* handover) {
            if (!handover->is_of_parent()) delete handover;
          }};
}

std::function<std::string()> refusal_of_holder(const std::string& name, Writers writers) {
  return [name, writers, holder = ::getpid()]() -> std::string {
    if (writers == Writers::row_locks)
      return shared_title(name) + " is written under row locks: by SharedTable::scatter() alone";
    if (::getpid() == holder) return {};
    return shared_title(name) + " is written by its holder alone, which is process " +
           std::to_string(holder) + "; this is process " + std::to_string(::getpid());
  };
}

std::string refusal_of_attached(const std::string& name, Access access, pid_t holder) {
  if (access == Access::read_write)
    return shared_title(name) + " is written under row locks: by SharedTable::scatter() alone";
  return shared_title(name) + " of process " + std::to_string(holder) +
         " is attached read_only; attach it read_write, which its holder permits by Writers::row_locks";
}

}  // namespace

struct SharedTable::State {
  std::string name;
  Table table;
  Writers writers;
  Access access;
  pid_t holder;
  std::chrono::milliseconds lock_timeout;
  std::unique_ptr<RowLocks> locks;  ///< null if the holder alone writes, or this process only reads
  HeldName held{nullptr, [](Handover*) {}};

  /// The rows, for a function that writes under locks.
  [[nodiscard]] std::byte* rows() const { return table.memory()->data(); }
};

SharedTable::SharedTable(std::shared_ptr<const State> state) : state_(std::move(state)) {}

SharedTable SharedTable::hold(const std::string& name, const Table& table, const HoldOptions& options) {
  require_shared_name(name);
  require_lock_timeout(options.lock_timeout);
  const auto place = file_of(name, table);
  auto offer = offer_of(name, table, place, options.writers);
  if (options.writers == Writers::row_locks) table.require_writable();
  if (table.placement() != Placement::mapped) seal(place, options.writers);
  auto guarded =
      std::make_shared<SharedRows>(table.memory(), place.fd, refusal_of_holder(name, options.writers));
  std::unique_ptr<RowLocks> locks;
  std::vector<int> descriptors{place.fd};
  if (options.writers == Writers::row_locks) {
    locks = RowLocks::create(table.rows(), row_bytes_of(table));
    offer.locks = locks->count();
    descriptors.push_back(locks->fd());
  }
  const auto file = table.file();
  const auto access = file ? file->access() : Access::read_write;
  return SharedTable(std::make_shared<const State>(
      State{name, Table(std::move(guarded), table.sizes(), table.dtype()), options.writers, access,
            ::getpid(), options.lock_timeout, std::move(locks), held(name, offer, std::move(descriptors))}));
}

SharedTable SharedTable::attach(const std::string& name, const AttachOptions& options) {
  require_lock_timeout(options.lock_timeout);
  auto [offer, holder, file, lock_file] = receive_table(name, options.timeout);
  const auto dtype = static_cast<at::ScalarType>(offer.dtype);
  const at::IntArrayRef sizes(offer.sizes.data(), offer.dimensions);
  const auto demanded = options.dtype.value_or(dtype);
  if (demanded != dtype || (!options.sizes.empty() && sizes != at::IntArrayRef(options.sizes)))
    throw ShapeError(shared_title(name) + " of process " + std::to_string(holder) + " is " +
                     layout(dtype, sizes) + ", and " +
                     layout(demanded, options.sizes.empty() ? sizes : options.sizes) + " is demanded");
  const auto writers = static_cast<Writers>(offer.writers);
  const bool writes = options.access == Access::read_write;
  if (writes && writers == Writers::holder)
    throw AccessError(shared_title(name) + " is written by its holder alone, which is process " +
                      std::to_string(holder) + "; attach it read_only, or hold it with Writers::row_locks");
  auto memory =
      map_shared(static_cast<Placement>(offer.placement), std::move(file), offer.offset, offer.bytes, writes);
  auto guarded = std::make_shared<SharedRows>(
      memory, memory->shared_fd(), [why = refusal_of_attached(name, options.access, holder)] { return why; });
  State state{
      name,   Table(std::move(guarded), sizes, dtype), writers, options.access, holder, options.lock_timeout,
      nullptr};
  if (writes)
    state.locks = std::make_unique<RowLocks>(std::move(lock_file), offer.locks, row_bytes_of(state.table));
  return SharedTable(std::make_shared<const State>(std::move(state)));
}

const Table& SharedTable::table() const { return state_->table; }
const std::string& SharedTable::name() const { return state_->name; }
Writers SharedTable::writers() const { return state_->writers; }
Access SharedTable::access() const { return state_->access; }
pid_t SharedTable::holder() const { return state_->holder; }

void SharedTable::scatter(const RowIndex& index, const at::Tensor& values, Duplicates duplicates) const {
  const auto& state = *state_;
  const auto numbers = index.numbers(state.table.rows(), at::kCPU);
  const auto on_host = values.detach().cpu();
  if (!state.locks) state.table.require_writable();
  auto rows = state.table.host_tensor();
  if (!state.locks) return scatter_rows(rows, numbers, on_host, duplicates);
  auto* const first = state.rows();
  scatter_rows(rows, numbers, on_host, duplicates, [&](std::int64_t row, RowLocks::SetRow set) {
    state.locks->write(first, row, set, state.lock_timeout);
  });
}

std::int64_t SharedTable::finish_rows() const {
  const auto& state = *state_;
  if (state.locks) return state.locks->finish_all(state.rows(), state.lock_timeout);
  if (state.writers == Writers::row_locks) state.table.require_writable();
  return 0;
}

void SharedTable::flush() const {
  const auto& memory = state_->table.memory();
  if (memory->placement() != Placement::mapped || state_->access == Access::read_only) return;
  memory->check();
  if (::fsync(memory->shared_fd()) != 0)
    refuse_file("the file of a shared table", "cannot be flushed, what was written may be lost");
}

}  // namespace speedtorch

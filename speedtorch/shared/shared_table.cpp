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

std::string layout(at::ScalarType dtype, at::IntArrayRef sizes) {
  return std::string(c10::toString(dtype)) + " " + c10::str(sizes);
}

/// The memory of a shared table as functions of this process may use it.
class SharedRows final : public Memory {
 public:
  /// @param refusal why this process may not write now; empty if it may
  SharedRows(const std::shared_ptr<Memory>& beneath, std::function<std::string()> refusal)
      : Memory(beneath), beneath_(beneath), refusal_(std::move(refusal)) {}
  [[nodiscard]] Placement placement() const override { return beneath_->placement(); }
  [[nodiscard]] std::byte* data() const override { return beneath_->data(); }
  [[nodiscard]] int shared_fd() const override { return beneath_->shared_fd(); }
  [[nodiscard]] int file_fd() const override { return beneath_->file_fd(); }
  [[nodiscard]] std::int64_t file_offset() const override { return beneath_->file_offset(); }
  [[nodiscard]] bool writable() const override { return beneath_->writable(); }
  void check() const override { beneath_->check(); }
  void require_writable() const override {
    if (const auto why = refusal_(); !why.empty()) throw AccessError(why);
    beneath_->require_writable();
  }

 private:
  std::shared_ptr<Memory> beneath_;
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
  const auto& memory = *table.memory();
  if (memory.file_fd() >= 0) return {memory.file_fd(), memory.file_offset()};
  const bool fits = placement == Placement::pageable || placement == Placement::hugepage;
  if (fits && memory.shared_fd() >= 0) return {memory.shared_fd()};
  throw PlacementError("the memory of " + shared_title(name) + " is this process's own (" +
                       std::string(to_string(placement)) +
                       "); create the table pageable or hugepage with TableOptions::shared, or mapped");
}

/// Another descriptor of the rows, by which no process can map them writable. A seal (F_SEAL_FUTURE_WRITE)
/// would outlast the hold, and files on disks have none.
Descriptor for_reading(const SharedFile& place) {
  const int mode = ::fcntl(place.fd, F_GETFL) & O_ACCMODE;
  Descriptor file(mode == O_RDONLY
                      ? ::fcntl(place.fd, F_DUPFD_CLOEXEC, 0)
                      : ::open(("/proc/self/fd/" + std::to_string(place.fd)).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) refuse_file("the memory to share", "cannot be opened for reading");
  return file;
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

HeldName held(const std::string& name, const SharedOffer& offer, const HandedDescriptors& descriptors) {
  return {new Handover(name, offer, descriptors), [](Handover* handover) {
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
  Descriptor readers;               ///< what the holder hands to readers; none for another process
  std::unique_ptr<RowLocks> locks;  ///< null if the holder alone writes, or this process only reads
  HeldName held{nullptr, [](Handover*) {}};

  /// The rows, for a function that writes under locks.
  [[nodiscard]] std::byte* rows() const { return table.memory()->data(); }
};

SharedTable::SharedTable(std::shared_ptr<const State> state) : state_(std::move(state)) {}

SharedTable SharedTable::hold(const std::string& name, const Table& table, const HoldOptions& options) {
  require_shared_name(name);
  require_wait("lock_timeout", options.lock_timeout);
  const auto place = file_of(name, table);
  auto offer = offer_of(name, table, place, options.writers);
  if (options.writers == Writers::row_locks) table.require_writable();
  if (table.placement() != Placement::mapped) seal_size(place.fd);
  auto guarded = std::make_shared<SharedRows>(table.memory(), refusal_of_holder(name, options.writers));
  auto readers = for_reading(place);
  std::unique_ptr<RowLocks> locks;
  HandedDescriptors descriptors{.reading = readers.get()};
  if (options.writers == Writers::row_locks) {
    locks = RowLocks::create(table.rows(), row_bytes_of(table));
    offer.locks = locks->count();
    descriptors.writing = place.fd;
    descriptors.locks = locks->fd();
  }
  const auto access = table.memory()->writable() ? Access::read_write : Access::read_only;
  return SharedTable(std::make_shared<const State>(State{
      name, Table(std::move(guarded), table.sizes(), table.dtype()), options.writers, access, ::getpid(),
      options.lock_timeout, std::move(readers), std::move(locks), held(name, offer, descriptors)}));
}

SharedTable SharedTable::attach(const std::string& name, const AttachOptions& options) {
  require_wait("lock_timeout", options.lock_timeout);
  const bool writes = options.access == Access::read_write;
  auto [offer, holder, file, lock_file] =
      receive_table(name, writes ? Asker::writer : Asker::reader, options.timeout);
  const auto dtype = static_cast<at::ScalarType>(offer.dtype);
  const at::IntArrayRef sizes(offer.sizes.data(), offer.dimensions);
  const auto demanded = options.dtype.value_or(dtype);
  if (demanded != dtype || (!options.sizes.empty() && sizes != at::IntArrayRef(options.sizes)))
    throw ShapeError(shared_title(name) + " of process " + std::to_string(holder) + " is " +
                     layout(dtype, sizes) + ", and " +
                     layout(demanded, options.sizes.empty() ? sizes : options.sizes) + " is demanded");
  const auto writers = static_cast<Writers>(offer.writers);
  if (writes && writers == Writers::holder)
    throw AccessError(shared_title(name) + " is written by its holder alone, which is process " +
                      std::to_string(holder) + "; attach it read_only, or hold it with Writers::row_locks");
  auto memory =
      map_shared(static_cast<Placement>(offer.placement), std::move(file), offer.offset, offer.bytes, writes);
  auto guarded = std::make_shared<SharedRows>(
      memory, [why = refusal_of_attached(name, options.access, holder)] { return why; });
  State state{name,    Table(std::move(guarded), sizes, dtype),
              writers, options.access,
              holder,  options.lock_timeout,
              {},      nullptr};
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
  if (::fsync(memory->file_fd()) != 0)
    refuse_file("the file of a shared table", "cannot be flushed, what was written may be lost");
}

}  // namespace speedtorch

/// Allocators with one fault each, for the memory suite of stbench_planted: what a wasteful, lazy or broken
/// allocator would do. Those that differ for the small table of the warm-up do so from `first_real_bytes` on.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "benchmarks/memory/allocator.h"
#include "benchmarks/tables/table_store.h"
#include "speedtorch/error.h"

namespace stbench::planted_allocators {
namespace {

using speedtorch::Memory;
using speedtorch::Placement;

constexpr std::int64_t first_real_bytes = std::int64_t{32} << 20;

std::shared_ptr<Memory> plain(Placement placement, std::int64_t bytes, at::Device device) {
  return speedtorch::allocate(placement, bytes, device);
}

TableAllocator planted(const std::string& name, TableAllocator::Allocate allocate) {
  return {.name = name,
          .summary = "planted fault",
          .role = harness::Role::peer,
          .placements = {"pageable"},
          .asked_only = true,
          .allocate = std::move(allocate)};
}

TableAllocator planted_fill(const std::string& name, std::function<void(const Memory&, std::int64_t)> fill) {
  auto allocator = planted(name, plain);
  allocator.fill = [fill = std::move(fill)](const Memory& memory, std::int64_t bytes, std::uint64_t seed) {
    if (bytes < first_real_bytes) return fill_memory(memory, 0, bytes, seed);
    fill(memory, bytes);
  };
  return allocator;
}

/// As much again, which goes with the table.
class Twice final : public Memory {
 public:
  explicit Twice(std::int64_t bytes)
      : Memory(bytes),
        table_(plain(Placement::pageable, bytes, at::kCPU)),
        waste_(plain(Placement::pageable, bytes, at::kCPU)) {
    std::memset(waste_->data(), 1, static_cast<std::size_t>(bytes));
  }
  [[nodiscard]] Placement placement() const override { return Placement::pageable; }
  [[nodiscard]] std::byte* data() const override { return table_->data(); }

 private:
  std::shared_ptr<Memory> table_, waste_;
};

const RegisterAllocator takes_twice{planted(
    "takes_twice", [](Placement, std::int64_t bytes, at::Device) { return std::make_shared<Twice>(bytes); })};

const RegisterAllocator never_frees{
    planted("never_frees", [](Placement placement, std::int64_t bytes, at::Device device) {
      static std::vector<std::shared_ptr<Memory>> kept;
      kept.push_back(plain(placement, bytes, device));
      return kept.back();
    })};

/// The table's memory is there, and filled, before the baseline is taken.
const RegisterAllocator was_there_before{
    planted("was_there_before", [](Placement placement, std::int64_t, at::Device device) {
      static const auto all = [&] {
        auto memory = plain(placement, 4 * first_real_bytes, device);
        std::memset(memory->data(), 1, static_cast<std::size_t>(memory->bytes()));
        return memory;
      }();
      return all;
    })};

const RegisterAllocator has_no_memory{
    planted("has_no_memory", [](Placement placement, std::int64_t bytes, at::Device device) {
      if (bytes >= first_real_bytes) throw speedtorch::MemoryError("cannot allocate:\nplanted refusal");
      return plain(placement, bytes, device);
    })};

const RegisterAllocator touches_nothing{planted_fill("touches_nothing", [](const Memory&, std::int64_t) {})};

const RegisterAllocator fills_half{planted_fill(
    "fills_half", [](const Memory& memory, std::int64_t bytes) { fill_memory(memory, 0, bytes / 2, 1); })};

/// As the kernel ends a process when the memory runs out.
const RegisterAllocator is_killed{
    planted_fill("is_killed", [](const Memory&, std::int64_t) { std::raise(SIGKILL); })};

const RegisterAllocator says_last_words{planted_fill("says_last_words", [](const Memory&, std::int64_t) {
  std::fputs("planted last words\n", stderr);
  std::_Exit(3);
})};

/// Says which process it is in the file that STBENCH_PLANTED_FILE names.
const RegisterAllocator never_ends{planted_fill("never_ends", [](const Memory&, std::int64_t) {
  if (const char* file = std::getenv("STBENCH_PLANTED_FILE")) std::ofstream(file) << ::getpid() << '\n';
  std::this_thread::sleep_for(std::chrono::hours(1));
})};

}  // namespace
}  // namespace stbench::planted_allocators

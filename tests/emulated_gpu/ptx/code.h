/// A kernel's decoded instructions, as the parser makes and the warps run them.
///
/// A register of PTX is a row of 32 values, one per lane, packed by its size (2, 4 or 8 bytes), so that the
/// compiler vectorises the loops over lanes. A predicate is one word with a bit per lane. Immediates,
/// addresses of variables and special registers are rows too, filled before the first instruction; so every
/// operand is a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulated_gpu/memory_view.h"

namespace emulated_gpu {

using Mask = std::uint32_t;  ///< a bit per lane
constexpr int kLanes = 32;
constexpr Mask kAllLanes = ~Mask{0};

class Warp;
struct Instruction;
using Execute = void (*)(Warp&, const Instruction&, Mask);

/// While parsing: the number of a row. Afterwards: its offset in the warp's register file.
using Slot = std::uint32_t;
constexpr Slot kNoSlot = ~Slot{0};

/// The scheduler's part of an instruction, besides `execute`.
enum class Flow : std::uint8_t { next, branch, exit, collective, barrier, trap };

enum class Space : std::uint8_t { generic, global, shared, local, parameter };

/// How an access takes part in synchronisation (the PTX memory model's words).
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acquire_release };
enum class Scope : std::uint8_t { block, device, system };

enum class BarrierUse : std::uint8_t { sync, arrive, reduce_and, reduce_or, reduce_count };

/// The `variant` of bar.warp.sync, which waits for lanes at other instructions too.
constexpr std::uint8_t kWarpBarrier = 255;

struct Instruction {
  Execute execute = nullptr;
  Slot guard = kNoSlot;
  Slot d = kNoSlot, d2 = kNoSlot;                           ///< written
  Slot a = kNoSlot, b = kNoSlot, c = kNoSlot, e = kNoSlot;  ///< read
  Mask guard_flip = 0;                                      ///< all ones for @!p
  Mask flip = 0;             ///< all ones where the predicate operand is negated
  std::uint32_t target = 0;  ///< of a branch
  std::uint32_t line = 0;
  std::uint32_t access = kNoSlot;  ///< index of an Access
  Flow flow = Flow::next;
  std::uint8_t variant = 0;  ///< the family's own: comparison, rounding, mode
  std::uint8_t d_bytes = 0,
               a_bytes = 0;  ///< sizes of the rows where they may differ from the type's (ld, st, cvt)
};

/// The memory operand of ld, st, atom and red.
struct Access {
  Space space = Space::global;
  Order order = Order::weak;
  Scope scope = Scope::device;
  std::uint8_t bytes = 0;  ///< of all elements together
  std::uint8_t elements = 1;
  std::uint8_t address_bytes = 8;
  bool stores = false, loads = false;
  bool atomic = false, polls = false;
  std::int64_t offset = 0;
  Slot values[8] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot};
};

enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  dynamic_smem_size,
  total_smem_size,
};

/// A row that has its value before the first instruction.
struct Constant {
  Slot slot = 0;
  std::uint8_t bytes = 0;  ///< of a lane's value; 0: a predicate
  std::uint64_t value = 0;
};

struct SpecialRow {
  Slot slot = 0;
  std::uint8_t bytes = 4;
  Special which = Special::tid_x;
};

struct Code {
  std::vector<Instruction> instructions;
  std::vector<Access> accesses;
  std::vector<Constant> constants;
  std::vector<SpecialRow> specials;
  std::size_t register_bytes = 0;  ///< of a warp
  std::size_t dynamic_shared_begin = 0;
  std::shared_ptr<const std::string> text;  ///< of the module, for messages
  std::vector<Range> variables;             ///< the module's
};

/// Generic addresses of shared and local memory and of parameters: beyond what any pointer of the host or
/// device has.
constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 32;
constexpr std::uint64_t kSharedWindow = std::uint64_t{1} << 50;
constexpr std::uint64_t kLocalWindow = kSharedWindow + kWindowBytes;
constexpr std::uint64_t kParameterWindow = kLocalWindow + kWindowBytes;
constexpr std::uint64_t kWindowsEnd = kParameterWindow + kWindowBytes;

}  // namespace emulated_gpu

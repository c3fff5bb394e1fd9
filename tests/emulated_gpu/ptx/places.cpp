#include "tests/emulated_gpu/ptx/places.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/emulated_gpu/ptx/grid.h"

namespace emulated_gpu {
namespace {

std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

/// "writes 4 bytes at 0x10 of shared memory".
std::string deed(const Access& access, std::uint64_t address, const char* where) {
  const char* const verb = access.atomic ? "updates " : access.stores ? "writes " : "reads ";
  return verb + std::to_string(access.bytes) + (access.bytes == 1 ? " byte at " : " bytes at ") +
         hexadecimal(address) + where;
}

/// Checks of one launch's access; each lane's are done by the methods, in the order of `find`.
class Checker {
 public:
  Checker(Warp& warp, const Instruction& in, const Access& access)
      : warp_(warp), grid_(warp.grid()), in_(in), access_(access) {}

  std::byte* global(unsigned lane, std::uint64_t address) {
    check_alignment(lane, address, "");
    Range& last = grid_.last_range(in_.access);
    if (!holds(last, address)) {
      last = grid_.find_range(address);
      if (!holds(last, address)) {
        const auto neighbours = grid_.launch().memory->neighbours(address);
        warp_.fault(700, in_, lane,
                    deed(access_, address, "") + (neighbours.empty() ? "" : ": " + neighbours));
      }
    }
    if (access_.stores && last.read_only) {
      warp_.fault(700, in_, lane, deed(access_, address, "") + ", which is read-only");
    }
    if (last.written != nullptr) check_written(lane, address, last.written + (address - last.begin), "");
    if (auto* const races = grid_.races()) races->global(warp_, in_, access_, lane, address);
    return last.bytes + (address - last.begin);
  }

  std::byte* shared(unsigned lane, std::uint64_t address) {
    check_alignment(lane, address, " of shared memory");
    auto& block = warp_.block();
    if (address > block.shared_bytes() || block.shared_bytes() - address < access_.bytes) {
      warp_.fault(700, in_, lane,
                  deed(access_, address, " of shared memory") + ", of which the block has " +
                      std::to_string(block.shared_bytes()) + " bytes");
    }
    if (!block.shared_written().empty()) {
      check_written(lane, address, block.shared_written().data() + address, " of shared memory");
    }
    if (auto* const races = grid_.races()) races->shared(warp_, in_, access_, lane, address);
    return block.shared() + address;
  }

  std::byte* local(unsigned lane, std::uint64_t address) {
    check_alignment(lane, address, " of local memory");
    const auto size = grid_.kernel().local_bytes;
    if (address > size || size - address < access_.bytes) {
      warp_.fault(700, in_, lane,
                  deed(access_, address, " of local memory") + ", of which a thread has " +
                      std::to_string(size) + " bytes");
    }
    return warp_.local(lane) + address;
  }

  std::byte* parameter(unsigned lane, std::uint64_t address) {
    check_alignment(lane, address, " of the parameters");
    const auto size = grid_.kernel().parameter_bytes;
    if (access_.stores || address > size || size - address < access_.bytes) {
      warp_.fault(700, in_, lane,
                  deed(access_, address, " of the parameters") + ", which have " + std::to_string(size) +
                      " bytes and are read-only");
    }
    return const_cast<std::byte*>(grid_.launch().parameters) + address;
  }

  std::byte* generic(unsigned lane, std::uint64_t address) {
    if (address < kSharedWindow || address >= kWindowsEnd) return global(lane, address);
    if (address < kLocalWindow) return shared(lane, address - kSharedWindow);
    if (address < kParameterWindow) return local(lane, address - kLocalWindow);
    return parameter(lane, address - kParameterWindow);
  }

  std::byte* any(unsigned lane, std::uint64_t address) {
    switch (access_.space) {
      case Space::generic:
        return generic(lane, address);
      case Space::global:
        return global(lane, address);
      case Space::shared:
        return shared(lane, address);
      case Space::local:
        return local(lane, address);
      case Space::parameter:
        return parameter(lane, address);
    }
    return nullptr;
  }

 private:
  bool holds(const Range& range, std::uint64_t address) const {
    return address >= range.begin && address < range.end && range.end - address >= access_.bytes;
  }

  void check_alignment(unsigned lane, std::uint64_t address, const char* where) {
    if ((address & (access_.bytes - 1u)) == 0) return;
    warp_.fault(716, in_, lane,
                deed(access_, address, where) + ", which is no multiple of " + std::to_string(access_.bytes));
  }

  /// Notes what is written, and finds what is read before.
  void check_written(unsigned lane, std::uint64_t address, std::uint8_t* written, const char* where) {
    if (access_.loads && grid_.launch().find_unwritten) {
      const auto* const unwritten = std::find(written, written + access_.bytes, std::uint8_t{0});
      if (unwritten != written + access_.bytes) {
        warp_.fault(719, in_, lane,
                    deed(access_, address, where) + ", and nothing was written to the byte at " +
                        hexadecimal(address + static_cast<std::uint64_t>(unwritten - written)));
      }
    }
    if (access_.stores) std::memset(written, 1, access_.bytes);
  }

  Warp& warp_;
  Grid& grid_;
  const Instruction& in_;
  const Access& access_;
};

/// Finds the lanes' places in memory of `size` bytes that begins at the address `begin`.
/// @returns false if a lane's address is not aligned, or not of this memory
bool find_within(std::byte* bytes, std::uint64_t begin, std::uint64_t size, const Access& access, Mask mask,
                 const std::uint64_t* addresses, std::byte** places) {
  if (size < access.bytes) return false;
  // Nothing is 2^63 bytes long, so the topmost bit of an offset, or of the distance from it to the last
  // place, says that the offset is too large. Without a comparison per lane the loop is vectorised.
  const std::uint64_t last = size - access.bytes;
  std::uint64_t outside = 0, low = 0;
  const auto find = [&](unsigned lane) {
    const auto offset = addresses[lane] - begin;
    outside |= offset | (last - offset);
    low |= addresses[lane];
    places[lane] = bytes + offset;
  };
  if (mask == kAllLanes) {
#pragma GCC ivdep
    for (unsigned lane = 0; lane < kLanes; ++lane) find(lane);
  } else {
    for_each_lane(mask, find);
  }
  return (outside >> 63) == 0 && (low & (access.bytes - 1u)) == 0;
}

/// The usual cases, with nothing to check but where the addresses lie: global memory in the range that this
/// instruction touched last, shared memory, and parameters, which every thread reads.
bool find_at_once(Warp& warp, const Instruction& in, const Access& access, Mask mask,
                  const std::uint64_t* addresses, std::byte** places) {
  Grid& grid = warp.grid();
  if (access.space == Space::parameter) {
    auto* const bytes = const_cast<std::byte*>(grid.launch().parameters);
    return !access.stores &&
           find_within(bytes, 0, grid.kernel().parameter_bytes, access, mask, addresses, places);
  }
  if (grid.races() != nullptr) return false;
  if (access.space == Space::shared) {
    auto& block = warp.block();
    return block.shared_written().empty() &&
           find_within(block.shared(), 0, block.shared_bytes(), access, mask, addresses, places);
  }
  if (access.space != Space::global && access.space != Space::generic) return false;
  const Range& range = grid.last_range(in.access);
  if (access.stores && range.read_only) return false;
  if (range.written != nullptr && (access.stores || grid.launch().find_unwritten)) return false;
  return find_within(range.bytes, range.begin, range.end - range.begin, access, mask, addresses, places);
}

}  // namespace

void find_places(Warp& warp, const Instruction& in, const Access& access, Mask mask, std::byte** places) {
  std::uint64_t addresses[kLanes];
  const auto offset = static_cast<std::uint64_t>(access.offset);
  if (access.address_bytes == 8) {
    const auto* const base = warp.row<std::uint64_t>(in.a);
    for (unsigned lane = 0; lane < kLanes; ++lane) addresses[lane] = base[lane] + offset;
  } else {  // of 32 bits, which wrap
    const auto* const base = warp.row<std::uint32_t>(in.a);
    for (unsigned lane = 0; lane < kLanes; ++lane)
      addresses[lane] = base[lane] + static_cast<std::uint32_t>(offset);
  }
  if (find_at_once(warp, in, access, mask, addresses, places)) return;
  Checker checker(warp, in, access);
  for_each_lane(mask, [&](unsigned lane) { places[lane] = checker.any(lane, addresses[lane]); });
}

}  // namespace emulated_gpu

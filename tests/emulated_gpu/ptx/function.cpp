// Rows, names, labels and constants of a function while it is read.

#include <array>
#include <utility>

#include "tests/emulated_gpu/ptx/decode.h"

namespace emulated_gpu {
namespace {

struct NamedSpecial {
  std::string_view name;
  Special which;
  std::uint8_t bytes;
};

constexpr std::array<NamedSpecial, 25> kSpecials{{
    {"%tid.x", Special::tid_x, 4},
    {"%tid.y", Special::tid_y, 4},
    {"%tid.z", Special::tid_z, 4},
    {"%ntid.x", Special::ntid_x, 4},
    {"%ntid.y", Special::ntid_y, 4},
    {"%ntid.z", Special::ntid_z, 4},
    {"%ctaid.x", Special::ctaid_x, 4},
    {"%ctaid.y", Special::ctaid_y, 4},
    {"%ctaid.z", Special::ctaid_z, 4},
    {"%nctaid.x", Special::nctaid_x, 4},
    {"%nctaid.y", Special::nctaid_y, 4},
    {"%nctaid.z", Special::nctaid_z, 4},
    {"%laneid", Special::laneid, 4},
    {"%warpid", Special::warpid, 4},
    {"%nwarpid", Special::nwarpid, 4},
    {"%smid", Special::smid, 4},
    {"%nsmid", Special::nsmid, 4},
    {"%gridid", Special::gridid, 8},
    {"%lanemask_eq", Special::lanemask_eq, 4},
    {"%lanemask_le", Special::lanemask_le, 4},
    {"%lanemask_lt", Special::lanemask_lt, 4},
    {"%lanemask_ge", Special::lanemask_ge, 4},
    {"%lanemask_gt", Special::lanemask_gt, 4},
    {"%dynamic_smem_size", Special::dynamic_smem_size, 4},
    {"%total_smem_size", Special::total_smem_size, 4},
}};

/// "%rd57" is number 57 of the range "%rd"; nothing where no number ends the name.
std::optional<std::pair<std::string, unsigned>> split_number(std::string_view name) {
  const auto letters = name.find_last_not_of("0123456789") + 1;
  const auto digits = name.size() - letters;
  if (letters == 0 || digits == 0 || digits > 9) return std::nullopt;
  unsigned number = 0;
  for (const char digit : name.substr(letters)) number = number * 10 + static_cast<unsigned>(digit - '0');
  return std::pair(std::string(name.substr(0, letters)), number);
}

}  // namespace

void Function::declare_range(std::string prefix, Type type, unsigned count) {
  scopes_.back().ranges[std::move(prefix)] = {type, count, std::vector<Register>(count)};
}

Slot Function::new_row(unsigned bytes, bool fixed) {
  rows.push_back({static_cast<std::uint8_t>(bytes), fixed});
  return static_cast<Slot>(rows.size() - 1);
}

Function::Register* Function::find_register(std::string_view name) {
  const auto whole = std::string(name);
  const auto numbered = split_number(name);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    Register* found = nullptr;
    if (const auto named = scope->names.find(whole); named != scope->names.end()) {
      found = &named->second;
    } else if (numbered) {
      const auto range = scope->ranges.find(numbered->first);
      if (range == scope->ranges.end() || numbered->second >= range->second.count) continue;
      found = &range->second.registers[numbered->second];
      found->type = range->second.type;
    } else {
      continue;
    }
    if (found->slot == kNoSlot)
      found->slot = new_row(bytes_of(found->type) == 1 ? 2 : bytes_of(found->type), false);
    return found;
  }
  return nullptr;
}

const Symbol* Function::find_symbol(std::string_view name) const {
  const auto whole = std::string(name);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->symbols.find(whole);
    if (found != scope->symbols.end()) return &found->second;
  }
  return nullptr;
}

Slot Function::constant(std::uint64_t value, unsigned bytes) {
  if (bytes == 0) value = value != 0 ? kAllLanes : 0;
  if (bytes == 2) value &= 0xffff;
  if (bytes == 4) value &= 0xffffffff;
  const auto [at, is_new] = constants_.try_emplace({value, bytes}, kNoSlot);
  if (is_new) {
    at->second = new_row(bytes, true);
    code.constants.push_back({at->second, static_cast<std::uint8_t>(bytes), value});
  }
  return at->second;
}

std::optional<Slot> Function::special(std::string_view name) {
  if (const auto found = specials_.find(name); found != specials_.end()) return found->second;
  for (const auto& special : kSpecials) {
    if (special.name != name) continue;
    const auto slot = new_row(special.bytes, true);
    code.specials.push_back({slot, special.bytes, special.which});
    specials_.emplace(name, slot);
    return slot;
  }
  return std::nullopt;
}

void Function::place_label(const Token& label) {
  if (!labels_.try_emplace(std::string(label.text), static_cast<std::uint32_t>(code.instructions.size()))
           .second) {
    refuse_ptx(label.line, "the label " + std::string(label.text) + " stands twice");
  }
}

void Function::branch_to(const Token& label) {
  jumps_.push_back({label, static_cast<std::uint32_t>(code.instructions.size())});
}

std::uint32_t Function::position_of(const Token& label) const {
  const auto found = labels_.find(std::string(label.text));
  if (found == labels_.end()) refuse_ptx(label.line, "there is no label " + std::string(label.text));
  return found->second;
}

void Function::resolve_labels() {
  for (const auto& jump : jumps_) code.instructions[jump.instruction].target = position_of(jump.label);
}

}  // namespace emulated_gpu

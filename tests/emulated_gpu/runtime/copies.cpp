#include "tests/emulated_gpu/runtime/copies.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tests/emulated_gpu/fault.h"
#include "tests/emulated_gpu/runtime/messages.h"

namespace emulated_gpu {
namespace {

/// The kind of memory at one end of a copy.
enum class Side { device, pinned, pageable };

Side side_of(const Memory& memory, const void* address) {
  const auto* const found = memory.find(address);
  if (found != nullptr) return found->on_device() ? Side::device : Side::pinned;
  return memory.is_device_address(address) ? Side::device : Side::pageable;
}

/// True if a copy of a kind may have these ends. Pinned memory is the device's as well as the host's.
bool fits(cudaMemcpyKind kind, Side to, Side from) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return to != Side::device && from != Side::device;
    case cudaMemcpyHostToDevice:
      return to != Side::pageable && from != Side::device;
    case cudaMemcpyDeviceToHost:
      return to != Side::device && from != Side::pageable;
    case cudaMemcpyDeviceToDevice:
      return to != Side::pageable && from != Side::pageable;
    case cudaMemcpyDefault:
      return true;
    default:
      return false;
  }
}

std::size_t span_of(std::size_t pitch, const Rectangle& size) {
  return pitch * (size.height - 1) + size.width;
}

/// Where bytes lie when the work runs; a fault if the memory has gone since the call.
std::byte* there(const void* address, std::size_t bytes, Side side, const std::string& what) {
  auto& all = runtime();
  const std::lock_guard lock(all.mutex);
  auto* const found = all.memory.reach(address, bytes, what);
  if (found == nullptr || (side != Side::pageable && all.memory.find(address) == nullptr))
    throw Fault(cudaErrorIllegalAddress, text(what, ": the memory at ", address, " has gone since the call"));
  return found;
}

void move_rows(std::byte* to, const std::byte* from, const Rectangle& size) {
  for (std::size_t row = 0; row < size.height; ++row)
    std::memmove(to + row * size.to_pitch, from + row * size.from_pitch, size.width);
}

void move_marks(void* to, const void* from, const Rectangle& size) {
  if (!settings().find_unwritten) return;
  auto& all = runtime();
  const std::lock_guard lock(all.mutex);
  for (std::size_t row = 0; row < size.height; ++row) {
    all.memory.copy_marks(static_cast<std::byte*>(to) + row * size.to_pitch,
                          static_cast<const std::byte*>(from) + row * size.from_pitch, size.width);
  }
}

struct Copy {
  void* to;
  const void* from;
  Rectangle size;
  Side to_side, from_side;
  std::string what;
  std::shared_ptr<std::vector<std::byte>> staged;  ///< the bytes of pageable memory, at the call

  void operator()() const {
    auto* const target = there(to, span_of(size.to_pitch, size), to_side, what);
    if (staged != nullptr) {
      Rectangle packed = size;
      packed.from_pitch = size.width;
      move_rows(target, staged->data(), packed);
    } else {
      move_rows(target, there(from, span_of(size.from_pitch, size), from_side, what), size);
    }
    move_marks(to, from, size);
  }

  void stage() {
    staged = std::make_shared<std::vector<std::byte>>(size.width * size.height);
    Rectangle packed = size;
    packed.to_pitch = size.width;
    move_rows(staged->data(), static_cast<const std::byte*>(from), packed);
  }
};

/// Checks the arguments of a copy.
cudaError_t prepare(Runtime& all, Copy& copy, cudaMemcpyKind kind) {
  const auto& size = copy.size;
  if (size.height > 1 && (size.width > size.to_pitch || size.width > size.from_pitch))
    return cudaErrorInvalidPitchValue;
  copy.to_side = side_of(all.memory, copy.to);
  copy.from_side = side_of(all.memory, copy.from);
  if (all.memory.reach(copy.to, span_of(size.to_pitch, size), copy.what) == nullptr ||
      all.memory.reach(copy.from, span_of(size.from_pitch, size), copy.what) == nullptr)
    return cudaErrorInvalidValue;
  if (fits(kind, copy.to_side, copy.from_side)) return cudaSuccess;
  say(text(copy.what, ": kind ", kind, " does not fit the pointers ", copy.to, " and ", copy.from));
  return cudaErrorInvalidValue;
}

std::string title(const char* name, const Rectangle& size) {
  return text(name, " of ", size.width * size.height, " bytes");
}

}  // namespace

cudaError_t copy_async(Runtime& all, Lock& lock, void* to, const void* from, const Rectangle& size,
                       cudaMemcpyKind kind, cudaStream_t handle, const char* name) {
  if (size.width == 0 || size.height == 0) return cudaSuccess;
  Copy copy{to, from, size, {}, {}, title(name, size), nullptr};
  if (const auto error = prepare(all, copy, kind); error != cudaSuccess) return error;
  const auto* const stream = all.streams.find(handle, thread_state().device);
  const bool captured = stream != nullptr && stream->capture != nullptr;
  const bool to_host = copy.to_side == Side::pageable;
  const bool within_host = copy.to_side != Side::device && copy.from_side != Side::device &&
                           (to_host || copy.from_side == Side::pageable);
  const bool waits = to_host || within_host;
  if (copy.from_side == Side::pageable && !waits && !captured) copy.stage();
  ++all.statistics.copies;
  WorkPointer work;
  const auto error = enqueue(all, lock, handle, copy.what, std::move(copy), &work);
  if (error != cudaSuccess || !waits) return error;
  all.streams.finish(lock, work);
  return all.sticky();
}

cudaError_t copy_now(Runtime& all, Lock& lock, void* to, const void* from, const Rectangle& size,
                     cudaMemcpyKind kind, const char* name) {
  if (forbidden(all, name)) return cudaErrorStreamCaptureUnsupported;
  if (size.width == 0 || size.height == 0) return cudaSuccess;
  Copy copy{to, from, size, {}, {}, title(name, size), nullptr};
  if (const auto error = prepare(all, copy, kind); error != cudaSuccess) return error;
  const bool waits = copy.to_side != Side::device || copy.from_side != Side::device;
  ++all.statistics.copies;
  WorkPointer work;
  const auto error = enqueue(all, lock, nullptr, copy.what, std::move(copy), &work);
  if (error != cudaSuccess || !waits) return error;
  all.streams.finish(lock, work);
  return all.sticky();
}

cudaError_t fill_async(Runtime& all, Lock& lock, void* to, int value, std::size_t pitch, std::size_t width,
                       std::size_t height, cudaStream_t stream, const char* name) {
  if (width == 0 || height == 0) return cudaSuccess;
  const Rectangle size{.to_pitch = pitch, .from_pitch = pitch, .width = width, .height = height};
  const auto what = title(name, size);
  const auto side = side_of(all.memory, to);
  if (side == Side::pageable || all.memory.reach(to, span_of(pitch, size), what) == nullptr) {
    if (side == Side::pageable) say(text(what, ": ", to, " is no memory of a device"));
    return cudaErrorInvalidValue;
  }
  return enqueue(all, lock, stream, what, [=] {
    auto* const target = there(to, span_of(pitch, size), side, what);
    for (std::size_t row = 0; row < height; ++row) std::memset(target + row * pitch, value, width);
    move_marks(to, nullptr, size);
  });
}

cudaError_t copy_batch(Runtime& all, Lock& lock, const Batch& batch, cudaStream_t stream, const char* name) {
  const auto wrong = [&](const std::string& why) {
    say(text(name, ": ", why));
    return cudaErrorInvalidValue;
  };
  if (stream == nullptr || stream == cudaStreamLegacy)
    return wrong("the legacy default stream is not allowed");
  if (batch.count == 0) return wrong("there are no copies");
  if (batch.attribute_count == 0 || batch.attribute_count > batch.count || batch.first_of_attributes[0] != 0)
    return wrong("the attributes do not begin at the first copy, or are more than the copies");
  for (std::size_t i = 0; i < batch.attribute_count; ++i) {
    const auto order = batch.attributes[i].srcAccessOrder;
    if (order < cudaMemcpySrcAccessOrderStream || order > cudaMemcpySrcAccessOrderAny)
      return wrong("an attribute has no order of access");
    if (i > 0 && batch.first_of_attributes[i] <= batch.first_of_attributes[i - 1])
      return wrong("the attributes are not in order");
  }
  auto copies = std::make_shared<std::vector<Copy>>();
  std::size_t attribute = 0;
  for (std::size_t i = 0; i < batch.count; ++i) {
    while (attribute + 1 < batch.attribute_count && batch.first_of_attributes[attribute + 1] <= i)
      ++attribute;
    const auto bytes = batch.sizes[i];
    if (bytes == 0 || batch.to[i] == nullptr || batch.from[i] == nullptr)
      return wrong(text("copy ", i, " has no bytes or no address"));
    const Rectangle size{.to_pitch = bytes, .from_pitch = bytes, .width = bytes};
    Copy copy{batch.to[i], batch.from[i], size, {}, {}, text(name, ": copy ", i, " of ", bytes, " bytes"),
              nullptr};
    if (const auto error = prepare(all, copy, cudaMemcpyDefault); error != cudaSuccess) return error;
    const bool at_call = batch.attributes[attribute].srcAccessOrder == cudaMemcpySrcAccessOrderDuringApiCall;
    if (at_call && copy.from_side != Side::device) copy.stage();
    copies->push_back(std::move(copy));
  }
  std::shuffle(copies->begin(), copies->end(), std::mt19937_64(settings().seed));
  all.statistics.copies += batch.count;
  return enqueue(all, lock, stream, text(name, " of ", batch.count, " copies"), [copies] {
    for (const auto& copy : *copies) copy();
  });
}

}  // namespace emulated_gpu

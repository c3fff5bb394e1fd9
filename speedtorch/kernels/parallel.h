/// How kernels get threads: the caller passes its own pool as a callable. Kernels start no threads.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace speedtorch::kernels {

template <class Signature>
class FunctionRef;

/// A reference to a callable, which must outlive it: two words, no allocation, one indirect call.
template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <class Callable, class = std::enable_if_t<!std::is_same_v<std::decay_t<Callable>, FunctionRef> &&
                                                     std::is_invocable_r_v<Result, Callable&, Arguments...>>>
  FunctionRef(Callable&& callable) {  // implicit, so that a lambda can be passed
    using Target = std::remove_reference_t<Callable>;
    if constexpr (std::is_function_v<Target>) {
      target_.function = reinterpret_cast<void (*)()>(&callable);
      call_ = [](Storage target, Arguments... arguments) -> Result {
        return reinterpret_cast<Target*>(target.function)(std::forward<Arguments>(arguments)...);
      };
    } else {
      target_.object = std::addressof(callable);
      call_ = [](Storage target, Arguments... arguments) -> Result {
        return (*static_cast<Target*>(const_cast<void*>(target.object)))(
            std::forward<Arguments>(arguments)...);
      };
    }
  }

  Result operator()(Arguments... arguments) const {
    return call_(target_, std::forward<Arguments>(arguments)...);
  }

 private:
  union Storage {
    const void* object;
    void (*function)();
  };
  Storage target_;
  Result (*call_)(Storage, Arguments...);
};

/// Processes the items [begin, end) of a loop. It may throw only if its ParallelFor hands exceptions to the
/// caller, as serial_for and speedtorch::parallel_for do. Kernels' own bodies do not throw.
using RangeBody = FunctionRef<void(std::int64_t begin, std::int64_t end)>;

/// Calls `body` on ranges that partition [0, n), on any number of threads, and returns once all are done.
/// Only the last range may be shorter than `grain`.
using ParallelFor = FunctionRef<void(std::int64_t n, std::int64_t grain, RangeBody body)>;

/// A ParallelFor on the calling thread.
inline void serial_for(std::int64_t n, std::int64_t /*grain*/, RangeBody body) {
  if (n > 0) body(0, n);
}

}  // namespace speedtorch::kernels

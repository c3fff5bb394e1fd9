/// What users call with tensors, in whichever of the usual forms, as one.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <type_traits>
#include <utility>

#include "speedtorch/infinity/batch.h"

namespace speedtorch::infinity {

/// One tensor, a vector, or a pair or tuple of them, as a vector.
inline Tensors as_tensors(at::Tensor tensor) { return {std::move(tensor)}; }
inline Tensors as_tensors(Tensors tensors) { return tensors; }
template <class... T>
Tensors as_tensors(std::tuple<T...> tensors) {
  return std::apply([](auto&&... each) { return Tensors{std::forward<decltype(each)>(each)...}; },
                    std::move(tensors));
}
template <class A, class B>
Tensors as_tensors(std::pair<A, B> tensors) {
  return {std::move(tensors.first), std::move(tensors.second)};
}

/// A module (by handle or pointer) as a function that can be asked what it takes; other functions are
/// themselves. A module's own call operator cannot be asked: the question alone does not compile.
template <class Function>
auto as_function(Function function) {
  if constexpr (
      requires { function.ptr(); } || requires { function.get()->is_training(); }) {
    return [function]<class... T>(const T&... input) mutable requires(
        requires(Function & it) { it.forward(input...); } ||
        requires(Function & it) { it->forward(input...); }) {
      if constexpr (requires { function.forward(input...); })
        return function.forward(input...);
      else
        return function->forward(input...);
    };
  } else {
    return function;
  }
}

/// True for what takes this many tensors, one after the other.
template <class F>
concept TakesOne = std::is_invocable_v<F&, const at::Tensor&>;
template <class F>
concept TakesTwo = std::is_invocable_v<F&, const at::Tensor&, const at::Tensor&>;
template <class F>
concept TakesThree = std::is_invocable_v<F&, const at::Tensor&, const at::Tensor&, const at::Tensor&>;
/// True for what takes them as a vector.
template <class F>
concept TakesAll = std::is_invocable_v<F&, const Tensors&>;

}  // namespace speedtorch::infinity

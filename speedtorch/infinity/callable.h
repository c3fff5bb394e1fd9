/// Adapts users' callables, in any of the usual forms, to vectors of tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <type_traits>
#include <utility>

#include "speedtorch/infinity/batch.h"

namespace speedtorch::infinity {

/// Converts one tensor, a vector, a pair or a tuple of tensors to a vector.
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

/// Wraps a module (handle or pointer) in a function whose argument count can be queried; returns other
/// functions as they are. A module's own call operator cannot be queried: the query does not compile.
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

/// True if F takes this many tensors as separate arguments.
template <class F>
concept TakesOne = std::is_invocable_v<F&, const at::Tensor&>;
template <class F>
concept TakesTwo = std::is_invocable_v<F&, const at::Tensor&, const at::Tensor&>;
template <class F>
concept TakesThree = std::is_invocable_v<F&, const at::Tensor&, const at::Tensor&, const at::Tensor&>;
/// True if F takes a vector of tensors.
template <class F>
concept TakesAll = std::is_invocable_v<F&, const Tensors&>;

}  // namespace speedtorch::infinity

/// Applies a function of a lane's values to the lanes of a warp: in a loop that the compiler vectorises where
/// all lanes take part. (A destination may be one of the sources, but then in the same lane: no lane depends
/// on another.)
#pragma once

#include "tests/emulated_gpu/ptx/warp.h"

namespace emulated_gpu {

template <class Use>
inline void over_lanes(Mask mask, Use use) {
  if (mask == kAllLanes) {
#pragma GCC ivdep
    for (unsigned lane = 0; lane < kLanes; ++lane) use(lane);
  } else {
    for_each_lane(mask, use);
  }
}

/// `kFunction` is a function of values of the rows' types.
template <auto kFunction, class D, class A>
void apply1(Warp& warp, const Instruction& in, Mask mask) {
  D* const d = warp.row<D>(in.d);
  const A* const a = warp.row<A>(in.a);
  over_lanes(mask, [=](unsigned lane) { d[lane] = static_cast<D>(kFunction(a[lane])); });
}

template <auto kFunction, class D, class A, class B = A>
void apply2(Warp& warp, const Instruction& in, Mask mask) {
  D* const d = warp.row<D>(in.d);
  const A* const a = warp.row<A>(in.a);
  const B* const b = warp.row<B>(in.b);
  over_lanes(mask, [=](unsigned lane) { d[lane] = static_cast<D>(kFunction(a[lane], b[lane])); });
}

template <auto kFunction, class D, class A, class B = A, class C = A>
void apply3(Warp& warp, const Instruction& in, Mask mask) {
  D* const d = warp.row<D>(in.d);
  const A* const a = warp.row<A>(in.a);
  const B* const b = warp.row<B>(in.b);
  const C* const c = warp.row<C>(in.c);
  over_lanes(mask, [=](unsigned lane) { d[lane] = static_cast<D>(kFunction(a[lane], b[lane], c[lane])); });
}

/// A bit per lane where `test` holds, among the lanes of `mask`.
template <class Test>
inline Mask lanes_where(Mask mask, Test test) {
  Mask found = 0;
  if (mask == kAllLanes) {
    for (unsigned lane = 0; lane < kLanes; ++lane) found |= static_cast<Mask>(test(lane)) << lane;
  } else {
    for_each_lane(mask, [&](unsigned lane) { found |= static_cast<Mask>(test(lane)) << lane; });
  }
  return found;
}

/// Writes a predicate's bits for the lanes of `mask`.
inline void set_predicate(Mask& predicate, Mask bits, Mask mask) {
  predicate = (predicate & ~mask) | (bits & mask);
}

}  // namespace emulated_gpu

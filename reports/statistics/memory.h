/// The autocorrelation between consecutive processes. A machine's speed drifts, so processes that run one
/// after the other are more alike than distant ones. Two sides that ran one after the other then differ by
/// more than the spread within a side.
#pragma once

#include <span>
#include <vector>

namespace stbench::reports {

/// The pooled autocorrelation of several series at lag one, each about its own mean.
/// @returns the correlation `memory` (0 to 0.99) of neighbours in a stationary series of which series of
/// these lengths would show what these do. Removing the mean makes neighbours of short series look less alike
/// than they are; that is taken out. 0 for series shorter than three.
double memory_of(std::span<const std::vector<double>> series);

/// The variance of the difference of two sides' means, divided by what the variance within the sides
/// predicts, if neighbours in time have the correlation `memory`; at least 1.
/// @param base, now the places of each side's processes in time, from 0, in the order in which all of them
/// ran
double variance_inflation(double memory, std::span<const double> base, std::span<const double> now);

}  // namespace stbench::reports

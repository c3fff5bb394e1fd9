/// What one process's time tells of the next one's: a machine's speed wanders, and processes that run one
/// after the other are more alike than those that run far apart. Then two sides that ran one after the other
/// differ by more than the spread within a side tells.
#pragma once

#include <span>
#include <vector>

namespace stbench::reports {

/// The pooled autocorrelation of several series at lag one, each about its own mean.
/// @returns the correlation `memory` (0 to 0.99) of neighbours in a stationary series of which series of
/// these lengths would show what these do. Removing the mean makes neighbours of short series look less alike
/// than they are; that is taken out. 0 for series shorter than three.
double memory_of(std::span<const std::vector<double>> series);

/// How many times the variance of the difference of two sides' means is what the variance within the sides
/// tells, if neighbours in time have the correlation `memory`; never below 1.
/// @param base, now the places of each side's processes in time, from 0, in the order in which all of them
/// ran
double variance_inflation(double memory, std::span<const double> base, std::span<const double> now);

}  // namespace stbench::reports

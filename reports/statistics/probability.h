/// The distributions that a comparison of reports needs.
#pragma once

namespace stbench::reports {

/// P(|Z| >= z) of the standard normal law.
double normal_two_sided(double z);

/// P(|T| >= t) of Student's law.
/// @param freedom degrees of it, above 0; infinity gives the normal law.
double student_two_sided(double t, double freedom);

/// The t >= 0 with P(|T| >= t) = p.
/// @param p above 0, at most 1.
/// @throws std::invalid_argument for another p or freedom.
double student_quantile(double p, double freedom);

/// First and second derivative of log Gamma, x > 0.
double digamma(double x);
double trigamma(double x);
/// The x with trigamma(x) = y, y > 0.
double trigamma_inverse(double y);

}  // namespace stbench::reports

/// For the interpreter's tests: memory, launches, and cases of one instruction against the host's arithmetic.
#pragma once

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulated_gpu/ptx.h"

namespace emulated_gpu {

/// Buffers at addresses far apart, with exact bounds.
class TrialMemory : public MemoryView {
 public:
  /// A device address. `written` says whether the bytes count as written.
  std::uint64_t add(std::size_t bytes, bool written = true, bool read_only = false);
  template <class T>
  std::uint64_t add(const std::vector<T>& values) {
    const auto address = add(values.size() * sizeof(T));
    std::memcpy(buffers_.at(address).bytes.data(), values.data(), values.size() * sizeof(T));
    return address;
  }
  template <class T>
  std::vector<T> values(std::uint64_t address) const {
    const auto& bytes = buffers_.at(address).bytes;
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }
  Range range_of(std::uint64_t address) const override;
  std::string neighbours(std::uint64_t address) const override;

 private:
  struct Buffer {
    std::vector<std::byte> bytes;
    std::vector<std::uint8_t> written;
    bool read_only = false;
  };
  mutable std::map<std::uint64_t, Buffer> buffers_;
  std::uint64_t next_ = 0x7000000000;
};

/// ".version ... .entry k(.param .u64 p0, ...) { <declarations of registers> body }": `%p<9>`, `%rs<9>`,
/// `%r<29>`, `%rd<19>`,
/// `%f<9>`, `%fd<9>` are declared; the parameters are loaded into %rd1, %rd2, ... , `%r1` is %tid.x, `%r2`
/// %ctaid.x.
std::string kernel_text(const std::string& body, unsigned parameters, const std::string& module_scope = "");

/// Parses a text that the real assembler takes too, where there is one.
std::unique_ptr<Module> assembled(const std::string& text);

/// One launch of kernel `k`.
struct Trial {
  TrialMemory memory;
  Dim grid, block{32, 1, 1};
  std::size_t dynamic_shared = 0;
  std::uint64_t seed = 0;
  bool find_races = false, find_unwritten = false;

  Counts run(const std::string& text, const std::vector<std::uint64_t>& parameters);
  Counts run(const Kernel& kernel, const std::vector<std::uint64_t>& parameters);
  /// Returns the code and the message of a launch that faults ("700: ..."), or "" if it does not.
  std::string fault_of(const std::string& text, const std::vector<std::uint64_t>& parameters);
};

/// An instruction (or some) in terms of the registers d, a, b, c, and what the host computes of the same
/// bits.
struct Case {
  std::string body;
  unsigned d_bits = 32;
  std::vector<unsigned> source_bits;
  std::function<std::uint64_t(std::uint64_t, std::uint64_t, std::uint64_t)> expected;
};

/// Runs all on edge values, their pairs, and random ones, and compares the bits.
void expect_as_host(const std::vector<Case>& cases);

template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class T>
std::uint64_t to_bits(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

/// Devices give one NaN for f32; of f64 any will do, so a NaN is compared as one.
inline float canonical(float value) { return std::isnan(value) ? from_bits<float>(0x7fffffff) : value; }
inline double canonical(double value) { return value; }

/// The function's value with the host rounding by `mode` (FE_TONEAREST, ...).
template <class F>
auto rounded(int mode, F function) {
  const int before = std::fegetround();
  std::fesetround(mode);
  const volatile auto value = function();
  std::fesetround(before);
  return value;
}

/// A case of sources of one type; the function takes and returns values.
template <class D, class S, class F>
Case unary_case(const std::string& opcode, F function) {
  return {opcode + " d, a;", sizeof(D) * 8, {sizeof(S) * 8}, [=](auto a, auto, auto) {
            return to_bits(static_cast<D>(function(from_bits<S>(a))));
          }};
}

template <class D, class S, class F, class B = S>
Case binary_case(const std::string& opcode, F function) {
  return {opcode + " d, a, b;", sizeof(D) * 8, {sizeof(S) * 8, sizeof(B) * 8}, [=](auto a, auto b, auto) {
            return to_bits(static_cast<D>(function(from_bits<S>(a), from_bits<B>(b))));
          }};
}

template <class D, class S, class F, class B = S, class C = S>
Case ternary_case(const std::string& opcode, F function) {
  return {opcode + " d, a, b, c;",
          sizeof(D) * 8,
          {sizeof(S) * 8, sizeof(B) * 8, sizeof(C) * 8},
          [=](auto a, auto b, auto c) {
            return to_bits(static_cast<D>(function(from_bits<S>(a), from_bits<B>(b), from_bits<C>(c))));
          }};
}

}  // namespace emulated_gpu

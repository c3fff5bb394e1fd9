#include "tests/emulated_gpu/ptx/trial.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

namespace emulated_gpu {
namespace {

constexpr std::uint64_t kApart = 0x10000;

std::string read_all(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The assembler's complaint, or "". Where there is no assembler the interpreter's parser is the only judge.
std::string complaint_of_ptxas(const std::string& text) {
  const std::string ptxas = EMULATED_GPU_PTXAS;
  if (ptxas.empty()) return "";
  std::string path = testing::TempDir() + "/emulated_gpu_XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return "cannot write " + path;
  close(file);
  std::ofstream(path) << text;
  const auto command = ptxas + " -arch=sm_90 -O0 -o /dev/null " + path + " 2> " + path + ".log";
  const int status = std::system(command.c_str());
  const auto log = read_all(path + ".log");
  std::remove(path.c_str());
  std::remove((path + ".log").c_str());
  return status == 0 ? "" : log + "\n" + text;
}

std::vector<std::uint64_t> edges_of(unsigned bits) {
  switch (bits) {
    case 1:
      return {0, 1};
    case 16:
      return {0,      1,      2,      0x7fff, 0x8000, 0x8001, 0xffff, 0x00ff, 31,     0x3c00,
              0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x0400, 0x03ff, 0x7bff, 0x3f80, 0x7f80, 0x4049};
    case 32:
      return {0,          1,          2,          0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xff,
              31,         32,         0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x00800000,
              0x007fffff, 0x7f7fffff, 0x4f000000, 0x3effffff, 0x40490fdb, 0x5f000000, 0x33000000, 0x3fc00000};
    default:
      return {0,
              1,
              2,
              0x7fffffffffffffff,
              0x8000000000000000,
              0x8000000000000001,
              0xffffffffffffffff,
              0xff,
              31,
              64,
              0xffffffff,
              0x100000000,
              0x3ff0000000000000,
              0xbff0000000000000,
              0x7ff0000000000000,
              0xfff0000000000000,
              0x7ff8000000000000,
              0x0010000000000000,
              0x000fffffffffffff,
              0x7fefffffffffffff,
              0x43e0000000000000,
              0x3fe0000000000001,
              0x400921fb54442d18,
              0x3810000000000000};
  }
}

std::uint64_t low_bits(std::uint64_t value, unsigned bits) {
  return bits == 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
}

/// A random number whose exponent is often near one, should it be one with a point.
std::uint64_t random_of(unsigned bits, std::mt19937_64& random) {
  const auto value = random();
  if (random() % 4 == 0) return low_bits(value >> (random() % 60), bits);
  if (bits == 32 && random() % 2 == 0) {
    return to_bits(static_cast<float>(std::bit_cast<std::int64_t>(value)) * 0x1p-60f);
  }
  if (bits == 64 && random() % 2 == 0)
    return to_bits(static_cast<double>(std::bit_cast<std::int64_t>(value)) * 0x1p-50);
  return low_bits(value, bits);
}

struct Sources {
  std::uint64_t a = 0, b = 0, c = 0, d = 0;
};

std::vector<Sources> sources_of(const Case& trial) {
  std::mt19937_64 random(7);
  const auto bits = [&](std::size_t i) { return i < trial.source_bits.size() ? trial.source_bits[i] : 1; };
  std::vector<Sources> sources;
  for (const auto a : edges_of(bits(0))) {
    for (const auto b : edges_of(bits(1))) {
      const auto of_c = edges_of(bits(2));
      sources.push_back({a, b, of_c[random() % of_c.size()], 0});
    }
  }
  for (int i = 0; i < 500 || sources.size() % 128 != 0; ++i) {
    sources.push_back(
        {random_of(bits(0), random), random_of(bits(1), random), random_of(bits(2), random), 0});
  }
  return sources;
}

std::string declared(const char* name, unsigned bits) {
  return bits == 1 ? std::string("  .reg .pred ") + name + ";\n"
                   : "  .reg .b" + std::to_string(bits) + " " + name + ";\n";
}

std::string text_of(const Case& trial, std::size_t number) {
  std::string text = ".visible .entry case_" + std::to_string(number) +
                     "(.param .u64 at) {\n  .reg .b64 %base; .reg .b32 %t, %n, %i, %word;\n" +
                     declared("d", trial.d_bits);
  text +=
      "  ld.param.u64 %base, [at];\n  mov.u32 %t, %tid.x;\n  mov.u32 %n, %ntid.x;\n  mov.u32 %i, %ctaid.x;\n"
      "  mad.lo.u32 %t, %i, %n, %t;\n  mad.wide.u32 %base, %t, 32, %base;\n";
  const char* const names[] = {"a", "b", "c"};
  for (std::size_t i = 0; i < trial.source_bits.size(); ++i) {
    const auto bits = trial.source_bits[i];
    const auto place = "[%base+" + std::to_string(8 * i) + "];\n";
    text += declared(names[i], bits);
    if (bits == 1) {
      text += "  ld.global.u32 %word, " + place + "  setp.ne.u32 " + names[i] + ", %word, 0;\n";
    } else {
      text += "  ld.global.b" + std::to_string(bits) + " " + names[i] + ", " + place;
    }
  }
  text += "  " + trial.body + "\n";
  if (trial.d_bits == 1) {
    text += "  selp.u32 %word, 1, 0, d;\n  st.global.u32 [%base+24], %word;\n";
  } else {
    text += "  st.global.b" + std::to_string(trial.d_bits) + " [%base+24], d;\n";
  }
  return text + "  ret;\n}\n";
}

}  // namespace

std::uint64_t TrialMemory::add(std::size_t bytes, bool written, bool read_only) {
  const auto address = next_;
  next_ += (bytes + 2 * kApart - 1) / kApart * kApart;
  buffers_[address] = {std::vector<std::byte>(bytes, std::byte{0xCD}),
                       std::vector<std::uint8_t>(bytes, written), read_only};
  return address;
}

Range TrialMemory::range_of(std::uint64_t address) const {
  auto at = buffers_.upper_bound(address);
  if (at == buffers_.begin()) return {};
  --at;
  auto& buffer = at->second;
  if (address >= at->first + buffer.bytes.size()) return {};
  return {at->first, at->first + buffer.bytes.size(), buffer.bytes.data(), buffer.read_only,
          buffer.written.data()};
}

std::string TrialMemory::neighbours(std::uint64_t address) const {
  auto at = buffers_.upper_bound(address);
  if (at == buffers_.begin()) return "nothing is there";
  --at;
  return std::to_string(address - at->first - at->second.bytes.size()) + " bytes past the end of " +
         std::to_string(at->second.bytes.size()) + " bytes";
}

std::string kernel_text(const std::string& body, unsigned parameters, const std::string& module_scope) {
  std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n" + module_scope + "\n.visible .entry k(";
  for (unsigned i = 0; i < parameters; ++i)
    text += (i == 0 ? "" : ", ") + std::string(".param .u64 p") + std::to_string(i);
  text +=
      ") {\n  .reg .pred %p<9>;\n  .reg .b16 %rs<9>;\n  .reg .b32 %r<29>;\n  .reg .b64 %rd<19>;\n"
      "  .reg .f32 %f<9>;\n  .reg .f64 %fd<9>;\n";
  for (unsigned i = 0; i < parameters; ++i) {
    text += "  ld.param.u64 %rd" + std::to_string(i + 1) + ", [p" + std::to_string(i) + "];\n";
  }
  return text + "  mov.u32 %r1, %tid.x;\n  mov.u32 %r2, %ctaid.x;\n" + body + "\n  ret;\n}\n";
}

std::unique_ptr<Module> assembled(const std::string& text) {
  EXPECT_EQ(complaint_of_ptxas(text), "");
  return parse_ptx(text);
}

Counts Trial::run(const std::string& text, const std::vector<std::uint64_t>& parameters) {
  const auto module = assembled(text);
  return run(*module->kernels.at("k"), parameters);
}

Counts Trial::run(const Kernel& kernel, const std::vector<std::uint64_t>& parameters) {
  Launch launch;
  launch.kernel = &kernel;
  launch.grid = grid;
  launch.block = block;
  launch.dynamic_shared = dynamic_shared;
  launch.parameters = reinterpret_cast<const std::byte*>(parameters.data());
  launch.memory = &memory;
  launch.seed = seed;
  launch.find_races = find_races;
  launch.find_unwritten = find_unwritten;
  return emulated_gpu::run(launch);
}

std::string Trial::fault_of(const std::string& text, const std::vector<std::uint64_t>& parameters) {
  try {
    run(text, parameters);
  } catch (const Fault& fault) {
    return std::to_string(fault.code) + ": " + fault.what();
  }
  return "";
}

void expect_as_host(const std::vector<Case>& cases) {
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n";
  for (std::size_t i = 0; i < cases.size(); ++i) text += text_of(cases[i], i);
  const auto module = assembled(text);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& of_case = cases[i];
    auto sources = sources_of(of_case);
    Trial trial;
    trial.block.x = 128;
    trial.grid.x = static_cast<unsigned>(sources.size() / 128);
    const auto at = trial.memory.add(sources);
    trial.run(*module->kernels.at("case_" + std::to_string(i)), {at});
    unsigned wrong = 0;
    for (const auto& result : trial.memory.values<Sources>(at)) {
      const auto expected =
          low_bits(of_case.expected(result.a, result.b, result.c), std::max(of_case.d_bits, 1u));
      const auto found = low_bits(result.d, of_case.d_bits);
      if (found == expected || ++wrong > 3) continue;
      ADD_FAILURE() << of_case.body << std::hex << " of " << result.a << ", " << result.b << ", " << result.c
                    << " is " << found << ", on the host " << expected;
    }
    EXPECT_EQ(wrong, 0u) << of_case.body;
  }
}

}  // namespace emulated_gpu

// Loads, stores and atomics of every space, and what is wrong with an access.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

#include "tests/emulated_gpu/ptx/half.h"
#include "tests/emulated_gpu/ptx/trial.h"

namespace emulated_gpu {
namespace {

using testing::AssertionResult;

AssertionResult says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const auto* part : parts) {
    if (text.find(part) == std::string::npos)
      return testing::AssertionFailure() << "no \"" << part << "\" in: " << text;
  }
  return testing::AssertionSuccess();
}

TEST(PtxMemory, VectorsOfEverySizeAreMoved) {
  Trial trial;
  trial.block.x = 64;
  std::vector<std::uint32_t> words(64 * 8);
  std::iota(words.begin(), words.end(), 1u);
  const auto from = trial.memory.add(words), to = trial.memory.add(words.size() * 4, false);
  trial.run(kernel_text(R"(
  mad.wide.u32 %rd3, %r1, 32, %rd1;
  mad.wide.u32 %rd4, %r1, 32, %rd2;
  .reg .b32 %w<4>;
  ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%w0, %w1, %w2, %w3}, [%rd3];
  st.global.cs.v4.u32 [%rd4], {%w3, %w2, %w1, %w0};
  ld.global.v2.u64 {%rd5, %rd6}, [%rd3+16];
  st.v2.u64 [%rd4+16], {%rd6, %rd5};)",
                        2),
            {from, to});
  const auto moved = trial.memory.values<std::uint32_t>(to);
  for (std::uint32_t i = 0; i < 64 * 8; i += 8) {
    const std::vector<std::uint32_t> row(moved.begin() + i, moved.begin() + i + 8);
    EXPECT_EQ(row, (std::vector<std::uint32_t>{i + 4, i + 3, i + 2, i + 1, i + 7, i + 8, i + 5, i + 6}));
  }
}

TEST(PtxMemory, BytesAreExtendedAndCutOff) {
  Trial trial;
  trial.block.x = 1;
  const auto from = trial.memory.add(std::vector<std::uint8_t>{0x80, 0x01, 0xfe, 0xff});
  const auto to = trial.memory.add(32);
  trial.run(kernel_text(R"(
  ld.global.u8 %rs1, [%rd1];
  st.global.u16 [%rd2], %rs1;
  ld.global.s8 %rs2, [%rd1];
  st.global.u16 [%rd2+2], %rs2;
  ld.global.s8 %r3, [%rd1+3];
  st.global.u32 [%rd2+4], %r3;
  ld.global.s16 %rd5, [%rd1+2];
  st.global.u64 [%rd2+8], %rd5;
  st.global.u8 [%rd2+16], %r3;
  mov.u64 %rd6, 0x1234;
  st.global.u8 [%rd2+17], %rd6;
  st.global.u16 [%rd2+18], 7;)",
                        2),
            {from, to});
  const auto bytes = trial.memory.values<std::uint8_t>(to);
  const std::vector<std::uint8_t> expected{0x80, 0,    0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xff,
                                           0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x34, 7,    0};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin()));
}

TEST(PtxMemory, ParametersHaveTheirOffsets) {
  const auto module = assembled(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u8 a, .param .align 8 .b8 b[24], .param .u32 c, .param .u64 .ptr .align 1 d) {
  .reg .b32 %r<4>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [d];
  ld.param.u32 %r1, [b+20];
  mov.b64 %rd2, b;
  ld.param.u32 %r2, [%rd2+-8];
  ld.param.u32 %r3, [c];
  st.global.u32 [%rd1], %r1;
  st.global.u32 [%rd1+4], %r3;
  ret;
})");
  const auto& kernel = *module->kernels.at("k");
  ASSERT_EQ(kernel.parameters.size(), 4u);
  EXPECT_EQ(kernel.parameters[1].offset, 8u);
  EXPECT_EQ(kernel.parameters[1].size, 24u);
  EXPECT_EQ(kernel.parameters[2].offset, 32u);
  EXPECT_EQ(kernel.parameters[3].offset, 40u);
  EXPECT_EQ(kernel.parameter_bytes, 48u);
  Trial trial;
  trial.block.x = 1;
  const auto out = trial.memory.add(8);
  trial.run(kernel, {1, 2, 3, std::uint64_t{5} << 32, 6, out});
  EXPECT_EQ(trial.memory.values<std::uint32_t>(out), (std::vector<std::uint32_t>{5, 6}));
}

TEST(PtxMemory, VariablesOfTheModuleHaveTheirValues) {
  Trial trial;
  trial.block.x = 1;
  const auto out = trial.memory.add(16);
  trial.run(kernel_text(R"(
  ld.const.u32 %r3, [table+4];
  st.global.u32 [%rd1], %r3;
  mov.u64 %rd2, counter;
  cvta.global.u64 %rd2, %rd2;
  ld.u32 %r4, [%rd2];
  atom.global.add.u32 %r5, [counter], 3;
  ld.global.u32 %r5, [counter];
  st.global.u32 [%rd1+4], %r4;
  st.global.u32 [%rd1+8], %r5;)",
                        1, ".const .align 4 .u32 table[3] = {1, 2, 3};\n.global .align 4 .u32 counter = 4;"),
            {out});
  const auto values = trial.memory.values<std::uint32_t>(out);
  EXPECT_EQ(std::vector<std::uint32_t>(values.begin(), values.begin() + 3),
            (std::vector<std::uint32_t>{2, 4, 7}));
}

TEST(PtxMemory, SharedMemoryIsTheBlocksAndLocalMemoryTheThreads) {
  Trial trial;
  trial.grid.x = 3;
  trial.block.x = 64;
  trial.dynamic_shared = 256;
  const auto out = trial.memory.add(3 * 64 * 4);
  trial.run(kernel_text(R"(
  .local .align 4 .u32 own;
  .shared .align 4 .u32 offset;
  mov.u32 %r9, 100;
  st.shared.u32 [offset], %r9;
  mad.lo.u32 %r3, %r2, 64, %r1;
  st.local.u32 [own], %r3;
  shl.b32 %r4, %r1, 2;
  mov.u32 %r5, buffer;
  add.u32 %r5, %r5, %r4;
  st.shared.u32 [%r5], %r3;
  bar.sync 0;
  sub.u32 %r6, 63, %r1;
  shl.b32 %r6, %r6, 2;
  mov.u32 %r7, buffer;
  add.u32 %r6, %r6, %r7;
  ld.shared.u32 %r8, [%r6];
  ld.local.u32 %r3, [own];
  mad.wide.u32 %rd2, %r3, 4, %rd1;
  ld.shared.u32 %r9, [offset];
  add.u32 %r8, %r8, %r9;
  st.global.u32 [%rd2], %r8;)",
                        1, ".extern .shared .align 16 .b8 buffer[];"),
            {out});
  const auto values = trial.memory.values<std::uint32_t>(out);
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(values[block * 64 + i], 100 + block * 64 + 63 - i);
  }
}

struct Atomic {
  const char* opcode;
  unsigned bits;
  std::uint64_t before, operand, after;
};

TEST(PtxMemory, AtomicsOfOneThreadAreTheHosts) {
  const auto real = [](auto value) { return to_bits(value); };
  const Atomic atomics[] = {
      {"add.u32", 32, 0xffffffff, 2, 1},
      {"add.s32", 32, 5, 0xfffffffe, 3},
      {"add.u64", 64, ~std::uint64_t{0}, 2, 1},
      {"add.f32", 32, real(1.5f), real(2.25f), real(3.75f)},
      {"add.f64", 64, real(1.5), real(2.25), real(3.75)},
      {"add.noftz.f16", 16, narrow<Half>(1.5).bits, narrow<Half>(2.25).bits, narrow<Half>(3.75).bits},
      {"add.noftz.bf16", 16, narrow<Bfloat>(1.5).bits, narrow<Bfloat>(2.25).bits, narrow<Bfloat>(3.75).bits},
      {"add.noftz.f16x2", 32, 0x3c003c00, 0x3c004000, 0x40004200},
      {"min.s32", 32, 1, 0xffffffff, 0xffffffff},
      {"min.u32", 32, 1, 0xffffffff, 1},
      {"max.s64", 64, 1, ~std::uint64_t{0}, 1},
      {"max.u64", 64, 1, ~std::uint64_t{0}, ~std::uint64_t{0}},
      {"and.b32", 32, 0xff, 0x0ff0, 0xf0},
      {"or.b64", 64, 0xff, 0xf00, 0xfff},
      {"xor.b32", 32, 0xff, 0xf0f, 0xff0},
      {"exch.b32", 32, 1, 9, 9},
      {"exch.b64", 64, 1, 9, 9},
      {"inc.u32", 32, 7, 7, 0},
      {"inc.u32", 32, 6, 7, 7},
      {"dec.u32", 32, 0, 7, 7},
      {"dec.u32", 32, 9, 7, 7},
      {"dec.u32", 32, 3, 7, 2},
  };
  for (const auto& atomic : atomics) {
    for (const bool returns : {true, false}) {
      const std::string opcode = atomic.opcode, bits = std::to_string(atomic.bits);
      if (!returns && opcode.substr(0, 4) == "exch") continue;
      Trial trial;
      trial.block.x = 1;
      const auto place = trial.memory.add(std::vector<std::uint64_t>{atomic.before, atomic.operand, 0});
      trial.run(kernel_text("  .reg .b" + bits + " b, old;\n  ld.global.b" + bits + " b, [%rd1+8];\n  mov.b" +
                                bits + " old, b;\n" +
                                (returns ? "  atom.global." + opcode + " old, [%rd1], b;\n"
                                         : "  red.global." + opcode + " [%rd1], b;\n") +
                                "  st.global.b" + bits + " [%rd1+16], old;",
                            1),
                {place});
      const auto values = trial.memory.values<std::uint64_t>(place);
      EXPECT_EQ(values[0], atomic.after) << opcode;
      EXPECT_EQ(values[2], returns ? atomic.before : atomic.operand) << opcode;
    }
  }
}

TEST(PtxMemory, AtomicsOfManyThreadsLoseNothing) {
  Trial trial;
  trial.grid.x = 5;
  trial.block.x = 96;
  const auto sum = trial.memory.add(std::vector<std::uint32_t>{0, 0});
  trial.run(kernel_text(R"(
  .shared .align 4 .u32 count;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 st.shared.u32 [count], 0;
  bar.sync 0;
  atom.shared.add.u32 %r3, [count], 1;
  atom.global.cas.b32 %r4, [%rd1+4], 0, 77;
  bar.sync 0;
  ld.shared.u32 %r5, [count];
  @%p1 red.global.add.u32 [%rd1], %r5;)",
                        1),
            {sum});
  EXPECT_EQ(trial.memory.values<std::uint32_t>(sum), (std::vector<std::uint32_t>{480, 77}));
}

TEST(PtxMemory, AccessesOutOfBoundsNameThreadBlockAddressAndLine) {
  Trial trial;
  trial.grid.x = 2;
  trial.block = {8, 4, 1};
  const auto out = trial.memory.add(63 * 4);
  const auto fault = trial.fault_of(kernel_text(R"(
  mov.u32 %r3, %tid.y;
  mad.lo.u32 %r3, %r3, 8, %r1;
  mad.lo.u32 %r3, %r2, 32, %r3;
  mad.wide.u32 %rd2, %r3, 4, %rd1;
  st.global.u32 [%rd2], %r3;)",
                                                1),
                                    {out});
  EXPECT_TRUE(says(fault, {"700: writes 4 bytes at 0x70000000fc: 0 bytes past the end of 252 bytes",
                           "kernel k", "block (1,0,0)", "thread (7,3,0)", ": st.global.u32 [%rd2], %r3;"}));
}

TEST(PtxMemory, ReportsTheKindOfEachInvalidAccess) {
  struct Wrong {
    const char* body;
    std::initializer_list<const char*> said;
  };
  const Wrong wrongs[] = {
      {"ld.global.u32 %r3, [%rd1+14];", {"716: reads 4 bytes at 0x700000000e, which is no multiple of 4"}},
      {"ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd1+8];", {"716: reads 16 bytes"}},
      {"ld.global.u64 %rd3, [%rd1+16];", {"700: reads 8 bytes at 0x7000000010: 0 bytes past"}},
      {"ld.global.u8 %rs1, [%rd1+-1];", {"700: reads 1 byte at 0x6fffffffff: nothing is there"}},
      {"mov.u64 %rd3, 0; st.global.u32 [%rd3], %r1;", {"700: writes 4 bytes at 0x0"}},
      {"st.global.u32 [%rd2], %r1;", {"700: writes 4 bytes", "which is read-only"}},
      {"atom.global.add.u32 %r3, [%rd2], 1;", {"700: updates 4 bytes", "which is read-only"}},
      {".shared .align 4 .b8 box[12]; mov.u32 %r3, box; st.shared.u32 [%r3+12], %r1;",
       {"700: writes 4 bytes at 0xc of shared memory, of which the block has 12 bytes"}},
      {".shared .align 4 .b8 box[12]; mov.u32 %r3, box; st.shared.u32 [%r3+-4], %r1;",
       {"700: writes 4 bytes at 0xfffffffc"}},
      {".shared .align 4 .b8 box[12]; mov.u32 %r3, box; ld.shared.u32 %r4, [%r3+6];",
       {"716", "of shared memory"}},
      {".local .align 4 .b8 own[8]; st.local.u32 [own+8], %r1;",
       {"700: writes 4 bytes at 0x8 of local memory, of which a thread has 8"}},
      {"mov.b64 %rd3, p0; ld.param.u32 %r3, [%rd3+16];", {"700: reads 4 bytes at 0x10 of the parameters"}},
      {"trap;", {"719: trap"}},
  };
  for (const auto& wrong : wrongs) {
    Trial trial;
    const auto buffer = trial.memory.add(16), constant = trial.memory.add(16, true, true);
    EXPECT_TRUE(says(trial.fault_of(kernel_text(wrong.body, 2), {buffer, constant}), wrong.said))
        << wrong.body;
  }
}

TEST(PtxMemory, ALoopIsStoppedAtTheFirstByteBehindItsBuffer) {
  Trial trial;
  const auto buffer = trial.memory.add(16);
  const auto fault = trial.fault_of(kernel_text(R"(
  mov.u64 %rd2, %rd1;
AGAIN:
  ld.global.u8 %rs1, [%rd2];
  add.u64 %rd2, %rd2, 1;
  bra AGAIN;)",
                                                1),
                                    {buffer});
  EXPECT_TRUE(says(fault, {"700: reads 1 byte at 0x7000000010: 0 bytes past"}));
}

TEST(PtxMemory, ReadsOfWhatNothingWroteAreFoundWhereAsked) {
  const auto global = kernel_text("mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r3, [%rd2];", 1);
  const auto written = kernel_text(
      "mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r1; ld.global.u32 %r3, [%rd2];", 1);
  const auto shared = kernel_text(
      ".shared .align 4 .b8 box[128]; shl.b32 %r3, %r1, 2; mov.u32 %r4, box; add.u32 %r4, %r4, %r3; "
      "setp.ne.u32 %p1, %r1, 9; @%p1 st.shared.u32 [%r4], %r1; ld.shared.u32 %r5, [%r4];",
      1);
  for (const bool asked : {false, true}) {
    Trial trial;
    trial.find_unwritten = asked;
    const auto buffer = trial.memory.add(128, false);
    EXPECT_EQ(trial.fault_of(written, {trial.memory.add(128, false)}), "");
    const auto of_global = trial.fault_of(global, {buffer}), of_shared = trial.fault_of(shared, {buffer});
    if (!asked) {
      EXPECT_EQ(of_global + of_shared, "");
      continue;
    }
    EXPECT_TRUE(says(of_global, {"719: reads 4 bytes at 0x7000000000", "nothing was written to the byte",
                                 "thread (0,0,0)"}));
    EXPECT_TRUE(says(of_shared, {"719: reads 4 bytes at 0x24 of shared memory", "thread (9,0,0)"}));
  }
}

}  // namespace
}  // namespace emulated_gpu

// Races that are found, and orders that make none of them.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/emulated_gpu/ptx/trial.h"

namespace emulated_gpu {
namespace {

/// Returns the race finder's report on a kernel with 64 threads per block. %rd2 is the thread's own word,
/// %rd3 its neighbour's.
std::string race_in(const std::string& body, unsigned blocks = 1, std::uint64_t seed = 0) {
  Trial trial;
  trial.grid.x = blocks;
  trial.block.x = 64;
  trial.seed = seed;
  trial.find_races = true;
  const auto words = trial.memory.add(std::vector<std::uint32_t>(64 * 4 * blocks + 4));
  const std::string text = R"(
  .shared .align 4 .b8 box[256];
  mad.lo.u32 %r3, %r2, 64, %r1;
  mad.wide.u32 %rd2, %r3, 4, %rd1;
  xor.b32 %r4, %r3, 1;
  mad.wide.u32 %rd3, %r4, 4, %rd1;
  mov.u32 %r5, box;
  shl.b32 %r6, %r1, 2;
  add.u32 %r6, %r5, %r6;
  xor.b32 %r7, %r6, 4;
  xor.b32 %r8, %r6, 128;
  setp.eq.u32 %p1, %r1, 0;
)";
  return trial.fault_of(kernel_text(text + body, 1), {words});
}

void expect_race(const std::string& body, unsigned blocks = 1) {
  const auto told = race_in(body, blocks);
  EXPECT_NE(told.find("719: a race"), std::string::npos) << body << " said: " << told;
}

void expect_none(const std::string& body, unsigned blocks = 1) {
  for (const std::uint64_t seed : {0u, 5u}) EXPECT_EQ(race_in(body, blocks, seed), "") << body;
}

TEST(PtxRaces, NeighboursNeedABarrier) {
  expect_race("st.global.u32 [%rd2], %r1; ld.global.u32 %r9, [%rd3];");
  expect_race("st.shared.u32 [%r6], %r1; ld.shared.u32 %r9, [%r7];");
  expect_race("ld.shared.u32 %r9, [%r6]; st.shared.u32 [%r7], %r1;");
  expect_none("st.global.u32 [%rd2], %r1; bar.sync 0; ld.global.u32 %r9, [%rd3];");
  expect_none(
      "st.shared.u32 [%r6], %r1; bar.sync 0; ld.shared.u32 %r9, [%r7]; bar.sync 0; st.shared.u32 [%r7], "
      "%r1;");
  // The second barrier is missing.
  expect_race("st.shared.u32 [%r6], %r1; bar.sync 0; ld.shared.u32 %r9, [%r7]; st.shared.u32 [%r6], %r1;");
}

TEST(PtxRaces, TheMessageNamesBothThreadsAndLines) {
  const auto told = race_in("st.shared.u32 [%r6], %r1;\nld.shared.u32 %r9, [%r7];");
  for (const auto* part : {"it reads 4 bytes at 0x4 of shared memory", "thread (1,0,0) of block 0 wrote",
                           "(st.shared.u32 [%r6], %r1;", "thread (0,0,0)", ": ld.shared.u32 %r9, [%r7];"}) {
    EXPECT_NE(told.find(part), std::string::npos) << part << " in " << told;
  }
}

TEST(PtxRaces, WritesOfSeveralThreadsMeet) {
  expect_race("st.global.u32 [%rd1], %r1;");
  expect_race("st.shared.u8 [box], %r1;");
  expect_none("@%p1 st.global.u32 [%rd1], %r1;");
  expect_race("@%p1 st.global.u32 [%rd1], %r1;", 2);
  // Bytes beside each other are no race.
  expect_none("cvt.u64.u32 %rd4, %r3; add.u64 %rd4, %rd1, %rd4; st.global.u8 [%rd4], %r1;");
}

TEST(PtxRaces, WarpBarriersOrderTheirLanesOnly) {
  expect_none("st.shared.u32 [%r6], %r1; bar.warp.sync 0xffffffff; ld.shared.u32 %r9, [%r7];");
  expect_race("st.shared.u32 [%r6], %r1; bar.warp.sync 0xffffffff; ld.shared.u32 %r9, [%r8];");
  // Shuffles order nothing.
  expect_race(
      "st.shared.u32 [%r6], %r1; shfl.sync.idx.b32 %r9, %r1, 0, 31, 0xffffffff; ld.shared.u32 %r9, [%r7];");
}

TEST(PtxRaces, BarriersOfSomeThreadsOrderThose) {
  const std::string body = R"(
  setp.lt.u32 %p2, %r1, 32;
  st.shared.u32 [%r6], %r1;
  @!%p2 bra UPPER;
  barrier.sync 1, 32;
  bra JOIN;
UPPER:
  barrier.sync 2, 32;
JOIN:
)";
  expect_none(body + "ld.shared.u32 %r9, [%r7];");
  expect_race(body + "ld.shared.u32 %r9, [%r8];");
}

TEST(PtxRaces, AtomicsMeetEachOtherButNotPlainAccesses) {
  expect_none("atom.global.add.u32 %r9, [%rd1], 1; atom.shared.add.u32 %r9, [box], 1;", 3);
  expect_none("st.volatile.global.u32 [%rd1], %r1; ld.volatile.global.u32 %r9, [%rd1];", 2);
  expect_race("atom.global.add.u32 %r9, [%rd1], 1; ld.global.u32 %r9, [%rd1];");
  expect_race("@%p1 st.global.u32 [%rd1], %r1; red.global.add.u32 [%rd1], 1;");
}

/// Block 0 writes a value and raises a flag; the others wait for the flag and read the value.
std::string message(const std::string& before_flag, const std::string& raise, const std::string& read_flag,
                    const std::string& after_flag) {
  return R"(
  @!%p1 bra DONE;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra WAIT;
  st.global.u32 [%rd1], 42;
  )" + before_flag +
         "\n  " + raise + R"(
  bra DONE;
WAIT:
  )" + read_flag +
         R"(
  setp.eq.u32 %p3, %r9, 0;
  @%p3 bra WAIT;
  )" + after_flag +
         R"(
  ld.global.u32 %r10, [%rd1];
DONE:)";
}

TEST(PtxRaces, ReleaseAndAcquireOrderBlocks) {
  const std::string raise = "st.volatile.global.u32 [%rd1+4], 1;",
                    wait = "ld.volatile.global.u32 %r9, [%rd1+4];";
  const std::string fence = "membar.gl;";
  expect_none(message(fence, raise, wait, fence), 3);
  expect_none(
      message("", "st.release.gpu.global.u32 [%rd1+4], 1;", "ld.acquire.gpu.global.u32 %r9, [%rd1+4];", ""),
      3);
  expect_none(message("fence.acq_rel.gpu;", "st.relaxed.gpu.global.u32 [%rd1+4], 1;",
                      "ld.relaxed.gpu.global.u32 %r9, [%rd1+4];", "fence.acq_rel.gpu;"),
              3);
  expect_none(
      message(fence, "atom.global.add.u32 %r9, [%rd1+4], 1;", "atom.global.add.u32 %r9, [%rd1+4], 0;", fence),
      2);
  // Half of it orders nothing, nor does a fence for the block.
  expect_race(message("", raise, wait, fence), 2);
  expect_race(message(fence, raise, wait, ""), 2);
  expect_race(message("membar.cta;", raise, wait, fence), 2);
  expect_race(message(fence, raise, wait, "membar.cta;"), 2);
}

TEST(PtxRaces, LaterBlocksKnowWhatABlockLearnt) {
  // All threads of block 0 write; one of them, after a barrier, raises the flag; all of block 1 read after
  // theirs.
  const std::string body = R"(
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra WAIT;
  st.global.u32 [%rd2], %r1;
  bar.sync 0;
  @!%p1 bra DONE;
  membar.gl;
  st.volatile.global.u32 [%rd1+512], 1;
  bra DONE;
WAIT:
  @!%p1 bra TOGETHER;
SPIN:
  ld.volatile.global.u32 %r9, [%rd1+512];
  setp.eq.u32 %p3, %r9, 0;
  @%p3 bra SPIN;
  membar.gl;
TOGETHER:
  @BARRIER@
  xor.b32 %r10, %r1, 5;
  mad.wide.u32 %rd4, %r10, 4, %rd1;
  ld.global.u32 %r9, [%rd4];
DONE:)";
  auto with = body, without = body;
  with.replace(with.find("@BARRIER@"), 9, "bar.sync 0;");
  without.replace(without.find("@BARRIER@"), 9, "");
  expect_none(with, 2);
  expect_race(without, 2);
}

TEST(PtxRaces, AReleasePassesOnNothingThatOthersDidSinceTheBarrier) {
  const std::string body = R"(
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra WAIT;
  bar.sync 0;
  @!%p1 st.global.u32 [%rd2], %r1;
  @!%p1 bra DONE;
  membar.gl;
  st.volatile.global.u32 [%rd1+512], 1;
  bra DONE;
WAIT:
  @!%p1 bra DONE;
SPIN:
  ld.volatile.global.u32 %r9, [%rd1+512];
  setp.eq.u32 %p3, %r9, 0;
  @%p3 bra SPIN;
  membar.gl;
  ld.global.u32 %r9, [%rd1+4];
DONE:)";
  expect_race(body, 2);
}

TEST(PtxRaces, ThoseThatEndedAreRememberedByLaterBlocks) {
  expect_race(
      "setp.eq.u32 %p2, %r2, 0; @%p2 st.global.u32 [%rd2], %r1; mad.wide.u32 %rd4, %r1, 4, %rd1; "
      "ld.global.u32 %r9, [%rd4];",
      2);
  expect_none("st.global.u32 [%rd2], %r1; ld.global.u32 %r9, [%rd2];", 4);
}

}  // namespace
}  // namespace emulated_gpu

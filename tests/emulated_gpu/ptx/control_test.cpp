// Divergence, collectives, barriers, the order of blocks, and deadlocks.

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <numeric>
#include <string>

#include "tests/emulated_gpu/ptx/trial.h"

namespace emulated_gpu {
namespace {

using Words = std::vector<std::uint32_t>;

/// One warp that writes %r9 of each lane.
Words of_warp(const std::string& body, unsigned threads = 32) {
  Trial trial;
  trial.block.x = threads;
  const auto out = trial.memory.add(threads * 4);
  trial.run(kernel_text(body + "\n  mad.wide.u32 %rd2, %r1, 4, %rd1;\n  st.global.u32 [%rd2], %r9;", 1),
            {out});
  return trial.memory.values<std::uint32_t>(out);
}

template <class F>
Words each_lane(F function, unsigned lanes = 32) {
  Words values(lanes);
  for (unsigned lane = 0; lane < lanes; ++lane) values[lane] = function(lane);
  return values;
}

TEST(PtxControl, EachLaneTakesItsOwnWayAndTheyMeetAgain) {
  // Collatz steps: loops of different lengths, with a branch inside; then all vote, so all are together.
  const auto found = of_warp(R"(
  add.u32 %r3, %r1, 1;
  mov.u32 %r4, 0;
LOOP:
  setp.eq.u32 %p1, %r3, 1;
  @%p1 bra DONE;
  and.b32 %r5, %r3, 1;
  setp.eq.u32 %p2, %r5, 0;
  @!%p2 bra ODD;
  shr.u32 %r3, %r3, 1;
  bra NEXT;
ODD:
  mad.lo.u32 %r3, %r3, 3, 1;
NEXT:
  add.u32 %r4, %r4, 1;
  bra LOOP;
DONE:
  activemask.b32 %r6;
  setp.eq.u32 %p3, %r6, 0xffffffff;
  selp.u32 %r7, 1000, 0, %p3;
  add.u32 %r9, %r4, %r7;)");
  EXPECT_EQ(found, each_lane([](unsigned lane) {
              std::uint32_t steps = 1000;
              for (auto n = lane + 1; n != 1; n = n % 2 ? 3 * n + 1 : n / 2) ++steps;
              return steps;
            }));
}

TEST(PtxControl, LanesThatEndDoNotHoldUpTheOthers) {
  EXPECT_EQ(of_warp(R"(
  mov.u32 %r9, 7;
  mad.wide.u32 %rd2, %r1, 4, %rd1;
  st.global.u32 [%rd2], %r9;
  setp.lt.u32 %p1, %r1, 20;
  @%p1 exit;
  vote.sync.ballot.b32 %r9, 1, 0xffffffff;)"),
            each_lane([](unsigned lane) { return lane < 20 ? 7u : 0xfff00000; }));
}

TEST(PtxControl, GuardedInstructionsLeaveOtherLanesAsTheyWere) {
  EXPECT_EQ(of_warp(R"(
  mov.u32 %r9, 5;
  setp.gt.u32 %p1, %r1, 10;
  @%p1 add.u32 %r9, %r1, %r1;
  @!%p1 mov.u32 %r9, %laneid;)"),
            each_lane([](unsigned lane) { return lane > 10 ? 2 * lane : lane; }));
}

TEST(PtxControl, ShufflesTakeFromTheRightLane) {
  const auto shuffled = [](const std::string& mode, const std::string& by, const std::string& clamp) {
    return of_warp("mul.lo.u32 %r3, %r1, 10; shfl.sync." + mode + ".b32 %r9|%p1, %r3, " + by + ", " + clamp +
                   ", 0xffffffff; @!%p1 add.u32 %r9, %r9, 1000;");
  };
  EXPECT_EQ(shuffled("up", "3", "0"),
            each_lane([](unsigned i) { return i >= 3 ? (i - 3) * 10 : i * 10 + 1000; }));
  EXPECT_EQ(shuffled("down", "5", "31"),
            each_lane([](unsigned i) { return i + 5 < 32 ? (i + 5) * 10 : i * 10 + 1000; }));
  EXPECT_EQ(shuffled("bfly", "6", "31"), each_lane([](unsigned i) { return (i ^ 6) * 10; }));
  EXPECT_EQ(shuffled("idx", "9", "31"), each_lane([](unsigned) { return 90u; }));
  // Segments of 8 lanes: the mask is 0x18 in the upper byte.
  EXPECT_EQ(shuffled("idx", "2", "0x181f"), each_lane([](unsigned i) { return (i / 8 * 8 + 2) * 10; }));
  EXPECT_EQ(shuffled("up", "2", "0x1800"),
            each_lane([](unsigned i) { return i % 8 >= 2 ? (i - 2) * 10 : i * 10 + 1000; }));
}

TEST(PtxControl, VotesMatchesAndReductionsCountTheirMembers) {
  EXPECT_EQ(of_warp("setp.lt.u32 %p1, %r1, 3; vote.sync.any.pred %p2, %p1, 0xffffffff; vote.sync.all.pred "
                    "%p3, !%p1, 0xffffffff; "
                    "selp.u32 %r9, 1, 0, %p2; @%p3 add.u32 %r9, %r9, 10; vote.sync.uni.pred %p4, %p2, "
                    "0xffffffff; @%p4 add.u32 %r9, %r9, 100;"),
            each_lane([](unsigned) { return 101u; }));
  EXPECT_EQ(of_warp("rem.u32 %r3, %r1, 5; match.any.sync.b32 %r9, %r3, 0xffffffff;"),
            each_lane([](unsigned i) {
              std::uint32_t mask = 0;
              for (unsigned j = i % 5; j < 32; j += 5) mask |= 1u << j;
              return mask;
            }));
  EXPECT_EQ(
      of_warp("shr.u32 %r3, %r1, 5; match.all.sync.b32 %r9|%p1, %r3, 0xffffffff; @!%p1 mov.u32 %r9, 0;"),
      each_lane([](unsigned) { return 0xffffffff; }));
  EXPECT_EQ(of_warp("redux.sync.add.s32 %r9, %r1, 0xffffffff;"), each_lane([](unsigned) { return 496u; }));
  EXPECT_EQ(of_warp("redux.sync.max.u32 %r9, %r1, 0xffffffff;"), each_lane([](unsigned) { return 31u; }));
}

TEST(PtxControl, HalvesOfAWarpMeetAmongThemselves) {
  // Each half has its own mask and its own place in the text.
  EXPECT_EQ(of_warp(R"(
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra LOWER;
  redux.sync.add.u32 %r9, %r1, 0xffff0000;
  bra JOIN;
LOWER:
  redux.sync.add.u32 %r9, %r1, 0x0000ffff;
JOIN:
  bar.warp.sync 0xffffffff;)"),
            each_lane([](unsigned i) { return i < 16 ? 120u : 376u; }));
  // One instruction, two masks.
  EXPECT_EQ(of_warp("setp.lt.u32 %p1, %r1, 16; selp.b32 %r3, 0xffff, 0xffff0000, %p1; redux.sync.add.u32 "
                    "%r9, %r1, %r3;"),
            each_lane([](unsigned i) { return i < 16 ? 120u : 376u; }));
  // bar.warp.sync joins lanes that stand at different ones.
  EXPECT_EQ(of_warp(R"(
  mov.u32 %r9, 1;
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra LOWER;
  bar.warp.sync 0xffffffff;
  bra JOIN;
LOWER:
  bar.warp.sync 0xffffffff;
JOIN:)"),
            each_lane([](unsigned) { return 1u; }));
}

TEST(PtxControl, BarriersReduceOverTheBlock) {
  const auto found = of_warp(R"(
  setp.lt.u32 %p1, %r1, 40;
  bar.red.popc.u32 %r9, 0, %p1;
  bar.red.or.pred %p2, 0, %p1;
  bar.red.and.pred %p3, 0, !%p1;
  @%p2 add.u32 %r9, %r9, 100;
  @%p3 add.u32 %r9, %r9, 1000;)",
                             100);
  EXPECT_EQ(found, each_lane([](unsigned) { return 140u; }, 100));
}

TEST(PtxControl, ABarrierWaitsForTheLastThread) {
  const auto found = of_warp(R"(
  .shared .align 4 .u32 box;
  setp.eq.u32 %p1, %r1, 32;
  @%p1 st.shared.u32 [box], 6;
  bar.sync 0;
  ld.shared.u32 %r9, [box];)",
                             33);
  EXPECT_EQ(found, each_lane([](unsigned) { return 6u; }, 33));
}

TEST(PtxControl, NamedBarriersLetProducersGoOn) {
  Trial trial;
  trial.block.x = 64;
  const auto out = trial.memory.add(4);
  trial.run(kernel_text(R"(
  .shared .align 4 .u32 box;
  setp.lt.u32 %p1, %r1, 32;
  @%p1 bra CONSUMER;
  mov.u32 %r3, 5;
  st.shared.u32 [box], %r3;
  barrier.cta.arrive 3, 64;
  bra DONE;
CONSUMER:
  barrier.cta.sync 3, 64;
  ld.shared.u32 %r4, [box];
  st.global.u32 [%rd1], %r4;
DONE:)",
                        1),
            {out});
  EXPECT_EQ(trial.memory.values<std::uint32_t>(out), Words{5});
}

TEST(PtxControl, SpecialRegistersSayWhereAThreadIs) {
  Trial trial;
  trial.grid = {2, 3, 2};
  trial.block = {5, 2, 4};
  const auto out = trial.memory.add(12 * 40 * 4);
  trial.run(kernel_text(R"(
  .reg .b32 %x<9>;
  mov.u32 %x0, %ctaid.z; mov.u32 %x1, %nctaid.y; mov.u32 %x2, %ctaid.y; mad.lo.u32 %x0, %x0, %x1, %x2;
  mov.u32 %x1, %nctaid.x; mad.lo.u32 %x0, %x0, %x1, %r2;
  mov.u32 %x1, %ntid.z; mov.u32 %x2, %tid.z; mad.lo.u32 %x0, %x0, %x1, %x2;
  mov.u32 %x1, %ntid.y; mov.u32 %x2, %tid.y; mad.lo.u32 %x0, %x0, %x1, %x2;
  mov.u32 %x1, %ntid.x; mad.lo.u32 %x0, %x0, %x1, %r1;
  mad.wide.u32 %rd2, %x0, 4, %rd1;
  mov.u32 %x3, %laneid; mov.u32 %x4, %warpid; mad.lo.u32 %x3, %x4, 32, %x3;
  mov.u32 %x5, %lanemask_lt; popc.b32 %x5, %x5; mad.lo.u32 %x3, %x5, 1000, %x3;
  st.global.u32 [%rd2], %x3;)",
                        1),
            {out});
  const auto values = trial.memory.values<std::uint32_t>(out);
  for (unsigned i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], i % 40 + 1000 * (i % 40 % 32));
}

/// A chain: each block waits for the one before it, whatever the order in which they run.
TEST(PtxControl, BlocksThatWaitForOthersMakeProgressInAnyOrder) {
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    Trial trial;
    trial.grid.x = 200;
    trial.seed = seed;
    const auto sums = trial.memory.add(Words(201));
    trial.run(kernel_text(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  mad.wide.u32 %rd2, %r2, 4, %rd1;
  setp.eq.u32 %p2, %r2, 0;
  mov.u32 %r3, 1;
  @%p2 bra STORE;
WAIT:
  ld.volatile.global.u32 %r3, [%rd2];
  setp.eq.u32 %p3, %r3, 0;
  @%p3 bra WAIT;
STORE:
  add.u32 %r3, %r3, %r2;
  st.volatile.global.u32 [%rd2+4], %r3;
DONE:
  bar.sync 0;)",
                          1),
              {sums});
    EXPECT_EQ(trial.memory.values<std::uint32_t>(sums)[200], 1u + 199 * 200 / 2);
  }
}

TEST(PtxControl, ALockWithinAWarpIsPassedOn) {
  Trial trial;
  const auto place = trial.memory.add(Words{0, 0});
  trial.run(kernel_text(R"(
AGAIN:
  atom.global.cas.b32 %r3, [%rd1], 0, 1;
  setp.ne.u32 %p1, %r3, 0;
  @%p1 bra AGAIN;
  ld.volatile.global.u32 %r4, [%rd1+4];
  add.u32 %r4, %r4, 1;
  st.volatile.global.u32 [%rd1+4], %r4;
  atom.global.exch.b32 %r3, [%rd1], 0;)",
                        1),
            {place});
  EXPECT_EQ(trial.memory.values<std::uint32_t>(place), (Words{0, 32}));
}

TEST(PtxControl, DeadlocksSayWhoWaitsWhere) {
  const auto told = [](const std::string& body, unsigned threads) {
    Trial trial;
    trial.block.x = threads;
    return trial.fault_of(kernel_text(body, 1), {trial.memory.add(Words(1))});
  };
  const auto expect = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const auto* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  };
  // One warp at barrier 0, the other at barrier 1.
  expect(told("setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 1; bra B;\nA:\nbar.sync 0;\nB:", 64),
         {"719: deadlock in kernel k", "warp 0, lanes 0xffffffff", "bar.sync 0;", "warp 1", "bar.sync 1;"});
  // A lane that never comes to the warp's barrier.
  expect(told("setp.eq.u32 %p1, %r1, 4; @%p1 bra A; bar.warp.sync 0xffffffff;\nA:\nbar.sync 0;", 32),
         {"719: deadlock", "lanes 0xffffffef", "bar.warp.sync", "lanes 0x10", "bar.sync 0"});
  // A flag that no thread sets.
  expect(told("A:\nld.volatile.global.u32 %r3, [%rd1];\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra A;", 32),
         {"719: deadlock", "wait for memory that nothing changes"});
  expect(told("vote.sync.ballot.b32 %r3, 1, 0xff;", 32), {"719", "not in its own member mask 0xff"});
  expect(told("setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; bra B;\nA:\nbar.sync 0;\nB:", 32),
         {"719: threads of one warp wait at different barriers"});
}

TEST(PtxControl, TextThatIsNotKnownIsRefusedWithItsLine) {
  const auto refusal = [](const std::string& body) -> std::string {
    try {
      parse_ptx(kernel_text(body, 1));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("add.u32 %r3, %r1, %r2;"), "");
  EXPECT_EQ(refusal("\nfrobnicate.u32 %r3;"), "PTX line 16: frobnicate.u32: this instruction is not known");
  EXPECT_NE(refusal("add.weird.u32 %r3, %r1, %r2;").find("add.weird.u32: the modifier .weird is not known"),
            std::string::npos);
  EXPECT_NE(refusal("add.u32 %r3, %r1;").find("operand 3 is missing"), std::string::npos);
  EXPECT_NE(refusal("add.u32 %r99, %r1, %r2;").find("there is no register %r99"), std::string::npos);
  EXPECT_NE(refusal("bra NOWHERE;").find("there is no label NOWHERE"), std::string::npos);
  EXPECT_NE(refusal("add.u64 %rd1, %r1, %rd2;").find("%r1"), std::string::npos);
  EXPECT_NE(refusal("ld.global.L2::cache_hint.u32 %r3, [%rd1], %rd2;").find("cache policy"),
            std::string::npos);
}

TEST(PtxControl, InstructionsAreCounted) {
  Trial trial;
  trial.block.x = 48;
  const auto counts = trial.run(kernel_text("", 0), {0});
  EXPECT_EQ(counts.warp_instructions, 2u * 3);
  EXPECT_EQ(counts.thread_instructions, 48u * 3);
}

}  // namespace
}  // namespace emulated_gpu

#include "harness/interrupt.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace stbench::harness {
namespace {

class Interrupt : public testing::TestWithParam<int> {};

TEST_P(Interrupt, IsNotedOnce) {
  const InterruptGuard guard;
  EXPECT_EQ(interrupted_by(), 0);
  std::raise(GetParam());
  EXPECT_EQ(interrupted_by(), GetParam());
}

TEST_P(Interrupt, EndsTheProcessTheSecondTime) {
  EXPECT_EXIT(
      {
        const InterruptGuard guard;
        std::raise(GetParam());
        std::raise(GetParam());
        std::exit(0);
      },
      testing::KilledBySignal(GetParam()), "");
}

TEST_P(Interrupt, EndsTheProcessAfterAnotherKind) {
  const int other = GetParam() == SIGINT ? SIGTERM : SIGINT;
  EXPECT_EXIT(
      {
        const InterruptGuard guard;
        std::raise(other);
        std::raise(GetParam());
        std::exit(0);
      },
      testing::KilledBySignal(GetParam()), "");
}

TEST_P(Interrupt, EndsTheProcessWhereTheGuardIsGone) {
  EXPECT_EXIT(
      {
        { const InterruptGuard guard; }
        std::raise(GetParam());
        std::exit(0);
      },
      testing::KilledBySignal(GetParam()), "");
}

TEST_P(Interrupt, IsNotedWhereItWasIgnored) {
  EXPECT_EXIT(
      {
        std::signal(GetParam(), SIG_IGN);
        {
          const InterruptGuard guard;
          std::raise(GetParam());
          if (interrupted_by() != GetParam()) std::exit(1);
        }
        std::raise(GetParam());  // ignored again
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupt, testing::Values(SIGINT, SIGTERM));

TEST(InterruptGuard, IsForgottenByTheNextGuard) {
  {
    const InterruptGuard guard;
    std::raise(SIGINT);
  }
  EXPECT_EQ(interrupted_by(), SIGINT);
  const InterruptGuard guard;
  EXPECT_EQ(interrupted_by(), 0);
}

}  // namespace
}  // namespace stbench::harness

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/interrupt.h"

#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "core/interrupt_watch.h"

namespace torch_distinput {
namespace {

TEST(InterruptScope, InnermostCheckCountsUntilItsScopeEnds) {
  int outer = 0;
  int inner = 0;
  EXPECT_FALSE(interrupt_check());
  {
    const InterruptScope first([&] { ++outer; });
    {
      const InterruptScope second([&] { ++inner; });
      interrupt_check()();
    }
    interrupt_check()();
  }
  EXPECT_FALSE(interrupt_check());
  EXPECT_EQ(outer, 1);
  EXPECT_EQ(inner, 1);
}

TEST(InterruptScope, BelongsToOneThread) {
  const InterruptScope scope([] {});
  bool other_has_check = true;
  std::thread([&] { other_has_check = static_cast<bool>(interrupt_check()); }).join();
  EXPECT_FALSE(other_has_check);
}

std::exception_ptr some_interrupt() { return std::make_exception_ptr(std::runtime_error("interrupt")); }

TEST(InterruptWatch, SeesWhatTheCheckThrowsAndWhatIsReported) {
  const InterruptScope scope([] { throw std::runtime_error("checked"); });
  const InterruptWatch outer;
  {
    const InterruptWatch checking;
    EXPECT_THROW(interrupt_check()(), std::runtime_error);
    EXPECT_TRUE(checking.interrupt());
  }
  EXPECT_TRUE(outer.interrupt());
  const InterruptWatch reported;
  EXPECT_FALSE(reported.interrupt());
  report_interrupt(some_interrupt());
  EXPECT_TRUE(reported.interrupt());
}

TEST(InterruptWatch, WithoutAScopeNothingIsAnInterrupt) {
  const InterruptScope scope([] {});
  std::thread([] {
    const InterruptWatch watch;
    report_interrupt(some_interrupt());
    EXPECT_FALSE(watch.interrupt());
  }).join();
}

TEST(InterruptWatch, AnInterruptEndsOnlyTheInterruptedCall) {
  const InterruptScope users_call([] {});
  const InterruptWatch outer;
  {
    // A user's function that reads another pipeline and may catch what that throws.
    const InterruptScope nested([] {});
    const InterruptWatch inner;
    report_interrupt(some_interrupt());
    EXPECT_TRUE(inner.interrupt());
  }
  EXPECT_FALSE(outer.interrupt());
}

}  // namespace
}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/interrupt.h"

#include <gtest/gtest.h>

#include <thread>

namespace torch_distinput {
namespace {

TEST(InterruptScope, InnermostCheckCountsAndOuterComesBack) {
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

}  // namespace
}  // namespace torch_distinput

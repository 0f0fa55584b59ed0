// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/fork_guard.h"

#include <gtest/gtest.h>

#include "runtime/forked_child.h"

namespace torch_distinput {
namespace {

TEST(ForkGuard, IsInheritedInAForkedChildAndNowhereElse) {
  const ForkGuard guard;
  EXPECT_TRUE(true_in_forked_child([&] { return guard.inherited(); }));
  EXPECT_FALSE(guard.inherited());
}

TEST(ForkGuard, ACopyBelongsToTheProcessOfTheOriginal) {
  const ForkGuard guard;
  EXPECT_TRUE(true_in_forked_child([&] { return ForkGuard(guard).inherited(); }));
  EXPECT_FALSE(ForkGuard(guard).inherited());
}

TEST(ForkGuard, OneOfAChildIsInheritedByTheChildsChildren) {
  EXPECT_TRUE(true_in_forked_child([] {
    const ForkGuard guard;
    return !guard.inherited() && true_in_forked_child([&] { return guard.inherited(); });
  }));
}

}  // namespace
}  // namespace torch_distinput

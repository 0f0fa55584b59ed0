// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/any_op.h"

#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

Element same(Element element) { return element; }

TEST(AnyOp, AsksEveryOpOfAGraph) {
  const Dataset dataset = Dataset::zip({Dataset::range(3).skip(1), Dataset::range(4).take(2)}).batch(2);
  for (const char* name : {"range", "skip", "take", "zip", "batch"}) {
    EXPECT_TRUE(any_op(*dataset.node(), [&](const Node& op) { return op.name() == name; })) << name;
  }
  EXPECT_FALSE(any_op(*dataset.node(), [](const Node& op) { return op.name() == "map"; }));
}

TEST(AnyOp, RowsMayFailWhereAFunctionRuns) {
  const Dataset rows = Dataset::range(3).batch(2);
  EXPECT_FALSE(may_fail(*rows.node()));
  EXPECT_TRUE(may_fail(*rows.map(same).take(1).node()));
  EXPECT_TRUE(may_fail(*Dataset::zip({rows, rows.map(same)}).node()));
}

TEST(Node, RunsUserCodeWhereItsOwnCodeMayBlock) {
  const Dataset rows = Dataset::range(3);
  const Dataset users = rows.map(op_testing::runs_user_code(same));
  EXPECT_TRUE(users.node()->runs_user_code());
  EXPECT_FALSE(users.batch(2).node()->runs_user_code());  // its input does
  EXPECT_FALSE(rows.map(same).node()->runs_user_code());
  EXPECT_FALSE(rows.node()->runs_user_code());
}

}  // namespace
}  // namespace torch_distinput

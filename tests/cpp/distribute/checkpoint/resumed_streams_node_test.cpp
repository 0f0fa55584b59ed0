// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/checkpoint/resumed_streams_node.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"

namespace torch_distinput {
namespace {

// The ops of saved streams are copies of those of the pipeline, so devices would normalize a second time.
TEST(ResumedStreamsNode, LeavesNothingToDevices) {
  const Dataset images = Dataset::from_tensor_slices(Element(at::zeros({4, 2, 2, 3}, at::kByte)))
                             .batch(2)
                             .normalize_images({0, 0, 0}, {1, 1, 1})
                             .prefetch(1);
  ASSERT_NE(images.node()->last_normalization(), nullptr);
  EXPECT_EQ(resumed_streams_node(images.node(), {}, {})->last_normalization(), nullptr);
}

}  // namespace
}  // namespace torch_distinput

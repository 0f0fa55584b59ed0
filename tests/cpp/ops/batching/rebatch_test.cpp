// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "support/fakes.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

std::vector<Values> rebatched(std::int64_t rows, std::int64_t batch_size, std::vector<std::int64_t> sizes,
                              bool drop_remainder = false) {
  return elements(
      Dataset::range(rows).batch(batch_size).rebatch(std::move(sizes), {.drop_remainder = drop_remainder}));
}

std::optional<std::int64_t> static_rows(const Dataset& dataset) {
  return dim0(dataset.element_spec().leaves[0]);
}

TEST(Rebatch, TakesSizesInTurnAcrossBatches) {
  EXPECT_EQ(rebatched(10, 4, {3, 1}), (std::vector<Values>{{0, 1, 2}, {3}, {4, 5, 6}, {7}, {8, 9}}));
  EXPECT_EQ(rebatched(7, 2, {5}), (std::vector<Values>{{0, 1, 2, 3, 4}, {5, 6}}));
}

TEST(Rebatch, EndsAfterAShortElement) {
  EXPECT_EQ(rebatched(4, 4, {0, 0, 3}), (std::vector<Values>{{}, {}, {0, 1, 2}, {}, {}, {3}}));
  EXPECT_EQ(rebatched(1, 1, {2, 0}), (std::vector<Values>{{0}}));
}

TEST(Rebatch, YieldsZeroSizesAfterTheLastRowOnABorder) {
  EXPECT_EQ(rebatched(2, 2, {1, 0}), (std::vector<Values>{{0}, {}, {1}, {}}));
  EXPECT_EQ(rebatched(0, 2, {0, 2}), (std::vector<Values>{{}}));
}

TEST(Rebatch, DropsAShortElementWithDropRemainder) {
  EXPECT_EQ(rebatched(5, 2, {3}, true), (std::vector<Values>{{0, 1, 2}}));
}

TEST(Rebatch, MakesZeroRowsWithTheRealDims) {
  const Dataset rows = Dataset::from_rows(std::make_shared<fakes::Rows>(3)).map([](const Element& row) {
    return Element(row.tensor().expand({2, 3}).contiguous());
  });
  DatasetIterator iterator = rows.batch(3).rebatch({2, 0}).iterate();
  iterator.next();
  EXPECT_EQ(iterator.next()->tensor().sizes(), at::IntArrayRef({0, 2, 3}));
}

TEST(Rebatch, TakesTheDimsOfZeroRowsBeforeTheFirstBatchFromTheSpec) {
  const Dataset batches = Dataset::from_tensor_slices(Element(at::zeros({4, 5}))).batch(2);
  DatasetIterator iterator = batches.rebatch({0, 4}).iterate();
  EXPECT_EQ(iterator.next()->tensor().sizes(), at::IntArrayRef({0, 5}));
}

TEST(Rebatch, KnowsItsRowsOnlyWhereAllElementsAreEqual) {
  const Dataset full = Dataset::range(16).batch(8, {.drop_remainder = true});
  EXPECT_EQ(static_rows(full.rebatch({4})), 4);
  EXPECT_EQ(static_rows(full.rebatch({4, 4})), 4);
  EXPECT_EQ(static_rows(full.rebatch({3})), kUnknownDim);
  EXPECT_EQ(static_rows(full.rebatch({3}, {.drop_remainder = true})), 3);
  EXPECT_EQ(static_rows(full.rebatch({5, 3})), kUnknownDim);
  EXPECT_EQ(static_rows(Dataset::range(16).batch(8).rebatch({4})), kUnknownDim);
}

TEST(Rebatch, HidesTheBatchSize) {
  EXPECT_EQ(Dataset::range(8).batch(4).rebatch({2}).node()->batch_size(), std::nullopt);
}

TEST(Rebatch, RefusesBadSizes) {
  const Dataset batches = Dataset::range(4).batch(2);
  EXPECT_EQ(message_of<c10::ValueError>([&] { batches.rebatch({}); }),
            "rebatch: `batch_sizes` must not be empty.");
  EXPECT_EQ(message_of<c10::ValueError>([&] { batches.rebatch({2, -1}); }),
            "rebatch: `batch_sizes` must be at least 0, but one is -1.");
  EXPECT_EQ(message_of<c10::ValueError>([&] { batches.rebatch({0, 0}); }),
            "rebatch: `batch_sizes` must not all be 0.");
}

TEST(Rebatch, RefusesScalarsAndLeavesThatDisagree) {
  EXPECT_THROW(Dataset::range(3).rebatch({2}), c10::ValueError);
  const Dataset unequal = Dataset::zip({Dataset::range(8).batch(4, {.drop_remainder = true}),
                                        Dataset::range(12).batch(6, {.drop_remainder = true})});
  EXPECT_EQ(message_of<c10::ValueError>([&] { unequal.rebatch({2}); }),
            "rebatch: all leaves must have the same number of rows, but leaf [0] has 4 and leaf [1] has 6.");
}

TEST(Rebatch, RefusesToJoinRowsOfDifferentShapes) {
  const auto source = std::make_shared<fakes::Generators>(
      std::vector<Element>{at::zeros({3, 2}, at::kLong), at::zeros({3, 3}, at::kLong)});
  const Dataset dataset = Dataset::from_generator(source, std::nullopt).rebatch({2});
  EXPECT_EQ(message_of<FailedPreconditionError>([&] { elements(dataset); }),
            "rebatch: the element must have one shape beyond dim 0, but is (2,) in element 0 and (3,) in "
            "element 1; map it to one shape.");
}

TEST(Rebatch, DescribesItself) {
  EXPECT_EQ(Dataset::range(4).batch(2).rebatch({2, 1}).node()->describe(),
            "rebatch(batch_sizes=[2, 1], drop_remainder=False)");
}

TEST(Rebatch, ObeysTheLaws) {
  expect_laws(Dataset::range(23).batch(4).rebatch({3, 0, 2}));
  expect_laws(Dataset::range(8).batch(4).rebatch({0, 4, 0}));
  expect_laws(generated(11).batch(4).rebatch({1, 5}, {.drop_remainder = true}));
}

}  // namespace
}  // namespace torch_distinput

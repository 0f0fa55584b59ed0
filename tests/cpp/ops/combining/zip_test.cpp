// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

TEST(Zip, PairsElementsUpToTheEndOfTheShortest) {
  const std::vector<Values> expected = {{0, 10}, {1, 11}};
  EXPECT_EQ(elements(Dataset::zip({Dataset::range(5), Dataset::range(10, 12)})), expected);
  EXPECT_EQ(elements(Dataset::zip({generated(2), Dataset::range(10, 19)})), expected);
}

TEST(Zip, HoldsElementsInItsStructure) {
  const StructurePtr leaf = Structure::leaf();
  const StructurePtr structure =
      Structure::dict({"a", "b"}, {leaf, Structure::list({leaf, Structure::none()})});
  const Dataset pairs = Dataset::range(3).enumerate();
  const Element first = *Dataset::zip(structure, {Dataset::range(3), pairs}).iterate().next();
  EXPECT_EQ(first.structure()->str(), "{'a': *, 'b': [(*, *), None]}");
}

TEST(Zip, CanBeBatchedIntoColumns) {
  const std::vector<Values> expected = {{0, 1, 10, 11}, {2, 12}};
  EXPECT_EQ(elements(Dataset::zip({Dataset::range(3), Dataset::range(10, 13)}).batch(2)), expected);
}

TEST(Zip, KeepsPairsTogetherInAShuffle) {
  const Dataset pairs = Dataset::zip({Dataset::range(20), Dataset::range(20)}).shuffle({.seed = 2});
  for (const Values& pair : elements(pairs)) EXPECT_EQ(pair[0], pair[1]);
}

TEST(Zip, StaysAtItsEnd) {
  DatasetIterator iterator = Dataset::zip({Dataset::range(9), generated(2)}).iterate();
  EXPECT_EQ(elements(iterator).size(), 2U);
  EXPECT_FALSE(iterator.next().has_value());
}

TEST(Zip, HasTheCardinalityOfTheShortest) {
  const Dataset three = Dataset::range(3);
  EXPECT_EQ(Dataset::zip({three, Dataset::range(5)}).cardinality(), 3);
  EXPECT_EQ(Dataset::zip({three.repeat(), three}).cardinality(), 3);
  EXPECT_EQ(Dataset::zip({three.repeat(), three.repeat()}).cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Dataset::zip({three, generated(3)}).cardinality(), kUnknownCardinality);
}

TEST(Zip, HasTheBatchSizeOfAllIfEqual) {
  const Dataset rows = Dataset::range(8);
  EXPECT_EQ(Dataset::zip({rows.batch(4), rows.batch(4)}).node()->batch_size(), 4);
  EXPECT_EQ(Dataset::zip({rows.batch(4), rows.batch(2)}).node()->batch_size(), std::nullopt);
}

TEST(Zip, JoinsTheSpecs) {
  EXPECT_EQ(to_string(Dataset::zip({Dataset::range(3), Dataset::range(3).batch(2)}).element_spec()),
            "(TensorSpec(shape=(), dtype=torch.int64), TensorSpec(shape=(None,), dtype=torch.int64))");
}

TEST(Zip, KnowsItsRowsIfAllInputsAgree) {
  const PlanPtr plan = plan_of(Dataset::zip({Dataset::range(7).batch(3), Dataset::range(10, 17).batch(3)}));
  EXPECT_EQ(plan->rows(2), 1);
  EXPECT_EQ(plan->rows_before(3), 7);
  const std::vector<Segment> segments = {{0, 1, 3}, {2, 0, 1}};
  EXPECT_EQ(items(plan->take_rows(segments)), Values({1, 2, 6, 11, 12, 16}));
}

TEST(Zip, DoesNotKnowItsRowsIfInputsDisagree) {
  EXPECT_EQ(plan_of(Dataset::zip({Dataset::range(7).batch(3), Dataset::range(8).batch(3)}))->rows(0),
            kUnknownRows);
  EXPECT_EQ(plan_of(Dataset::zip({Dataset::range(7), Dataset::range(8)}))->rows(0), kUnknownRows);
}

TEST(Zip, RefusesNoDatasetsAndALeafTooMany) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::zip(Structure::tuple({}), {}); }),
            "zip: `structure` must hold at least 1 dataset, but holds none.");
  const StructurePtr two = Structure::tuple({Structure::leaf(), Structure::leaf()});
  EXPECT_EQ(message_of<c10::ValueError>([&] { Dataset::zip(two, {Dataset::range(3)}); }),
            "zip: `structure` must have a leaf for each of the 1 datasets, but (*, *) has 2.");
}

TEST(Zip, ObeysTheLaws) {
  expect_laws(Dataset::zip({Dataset::range(5).shuffle({.seed = 1}), Dataset::range(7)}));
  expect_laws(Dataset::zip({generated(5), Dataset::range(7)}));
  expect_laws(Dataset::zip({generated(7), generated(5)}));
  expect_laws(Dataset::zip({Dataset::range(7).batch(2), Dataset::range(7).batch(2)}));
}

}  // namespace
}  // namespace torch_distinput

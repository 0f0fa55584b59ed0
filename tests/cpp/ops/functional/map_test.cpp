// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "ops/op_testing.h"
#include "torch_distinput/random.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Element twice(const Element& element) { return element.tensor() * 2; }
Element first_row(const Element& element) { return element.tensor().narrow(0, 0, 1); }

TEST(Map, AppliesTheFunctionToEachElement) {
  EXPECT_EQ(values(Dataset::range(4).map(twice)), Values({0, 2, 4, 6}));
  EXPECT_EQ(values(generated(4).map(twice)), Values({0, 2, 4, 6}));
  EXPECT_EQ(values(Dataset::range(4).map(runs_user_code(twice))), Values({0, 2, 4, 6}));
}

TEST(Map, GetsWholeBatchesAfterBatch) {
  const auto reversed = [](const Element& element) { return Element(element.tensor().flip(0)); };
  EXPECT_EQ(elements(Dataset::range(5).batch(3).map(reversed)), (std::vector<Values>{{2, 1, 0}, {4, 3}}));
}

TEST(Map, LetsAFunctionWriteToItsRows) {
  const at::Tensor table = at::arange(12).view({6, 2});
  std::vector<at::Tensor> kept;
  std::mutex mutex;
  const auto negate = [&](Element row) {
    const at::Tensor tensor = row.tensor().neg_();
    const std::lock_guard lock(mutex);
    kept.push_back(tensor);
    return row;
  };
  const Dataset negated = Dataset::from_tensor_slices(table).shuffle({.seed = 1}).map(negate).batch(3);
  std::vector<at::Tensor> batches;
  for (const Element& batch : negated) batches.push_back(batch.tensor());
  const at::Tensor all = at::cat(batches);
  EXPECT_TRUE(
      at::equal(std::get<0>(at::sort(all.select(1, 0), 0, /*descending=*/true)), -table.select(1, 0)));
  EXPECT_TRUE(at::equal(all.select(1, 1), all.select(1, 0) - 1));
  EXPECT_TRUE(at::equal(table, at::arange(12).view({6, 2})));
  // Rows that are kept stay as they were, and a write to one of them does not change another.
  ASSERT_EQ(kept.size(), 6U);
  const auto version = kept.front()._version();
  kept.back().zero_();
  EXPECT_EQ(kept.front()._version(), version);
  EXPECT_EQ(kept.front()[1].item<std::int64_t>(), kept.front()[0].item<std::int64_t>() - 1);
}

TEST(Map, GivesAUsersFunctionRowsInBlocksOfTheirOwn) {
  std::vector<at::Tensor> kept;
  const auto keep = [&](const Element& row) {
    kept.push_back(row.tensor());
    return row;
  };
  for (const Element& batch : Dataset::from_tensor_slices(at::arange(8).view({4, 2}))
                                  .map(runs_user_code(keep))
                                  .batch(4)
                                  .with_options({.prefetch = 0}))
    EXPECT_EQ(batch.tensor().size(0), 4);
  for (const at::Tensor& row : kept) EXPECT_EQ(row.storage().nbytes(), 2 * sizeof(std::int64_t));
}

/// Rows of 16 KiB, of which a native function gets two at a time.
at::Tensor large_rows() { return at::arange(10).view({10, 1}).expand({10, 2048}).contiguous(); }

TEST(Map, MakesBatchesOfRowsOfSeveralBlocks) {
  const at::Tensor table = large_rows();
  Values seen;
  const auto record = [&](const Element& row) {
    seen.push_back(RowScope::current_number());
    return twice(row);
  };
  const PlanPtr plan = plan_of(Dataset::from_tensor_slices(table).map(record).batch(5));
  Values positions = {1};
  EXPECT_TRUE(at::equal(plan->fetch(positions).front().tensor(), table.narrow(0, 5, 5) * 2));
  EXPECT_EQ(seen, numbers(5, 10));
  const std::vector<Segment> segments = {{0, 4, 5}, {1, 0, 2}};
  EXPECT_TRUE(at::equal(plan->take_rows(segments).tensor(), table.narrow(0, 4, 3) * 2));
}

TEST(Map, ARowThatIsKeptHoldsItsBlockAndNoBatch) {
  std::vector<at::Tensor> kept;
  const auto keep = [&](Element row) {
    kept.push_back(row.tensor());
    return row;
  };
  const PlanPtr plan = plan_of(Dataset::from_tensor_slices(large_rows()).map(keep).batch(10));
  Values positions = {0};
  plan->fetch(positions).front().tensor().zero_();
  ASSERT_EQ(kept.size(), 10U);
  EXPECT_EQ(kept[7].storage().nbytes(), std::size_t{32} << 10);
  EXPECT_TRUE(at::equal(at::stack(kept), large_rows()));
}

TEST(Map, RowsThatDoNotFitTogetherAreRefusedByTheBatch) {
  const auto grow = [](const Element& row) {
    return scalar(row) == 7 ? Element(at::zeros({2}, at::kLong)) : row;
  };
  DatasetIterator iterator = Dataset::range(12).map(grow).batch(6).iterate();
  iterator.next();
  EXPECT_EQ(message_of<c10::ValueError>([&] { iterator.next(); }),
            "batch: the element must have one shape, but is () in element 0 of the batch and (2,) in element "
            "1; use padded_batch or ragged_batch, or map it to one shape.");
}

TEST(Map, HasTheSpecOfTheFirstResultWithUnknownDims) {
  const auto to_pair = [](const Element& element) {
    return Element::tuple({Element(element.tensor() * 0.5), Element(at::zeros({4, 2}))});
  };
  const ElementSpec spec = Dataset::range(3).map(to_pair).element_spec();
  EXPECT_EQ(
      to_string(spec),
      "(TensorSpec(shape=(), dtype=torch.float32), TensorSpec(shape=(None, None), dtype=torch.float32))");
  EXPECT_EQ(std::get<TensorSpec>(spec.leaves[1]).expected, Dims({4, 2}));
}

TEST(Map, KeepsAStaticDim0ThatTheFunctionKeeps) {
  const Dataset batches = Dataset::range(8).batch(4, {.drop_remainder = true});
  EXPECT_EQ(to_string(batches.map(twice).element_spec()), "TensorSpec(shape=(4,), dtype=torch.int64)");
  EXPECT_EQ(to_string(batches.map(first_row).element_spec()), "TensorSpec(shape=(None,), dtype=torch.int64)");
  EXPECT_EQ(to_string(Dataset::range(8).batch(4).map(twice).element_spec()),
            "TensorSpec(shape=(None,), dtype=torch.int64)");
}

TEST(Map, HasNoSpecOverAnEmptyDatasetButCanBeRead) {
  const Dataset empty = Dataset::range(0).map(twice);
  EXPECT_EQ(empty.node()->spec(), nullptr);
  EXPECT_EQ(values(empty.batch(2)), Values());
}

TEST(Map, ReadsTheFirstElementOnceForTheSpec) {
  std::int64_t calls = 0;
  const Dataset mapped = Dataset::range(3).map([&calls](Element element) {
    ++calls;
    return element;
  });
  EXPECT_EQ(calls, 0);
  mapped.element_spec();
  mapped.batch(2).element_spec();
  EXPECT_EQ(calls, 1);
}

TEST(Map, UsesAndChecksADeclaredSpec) {
  const ElementSpec declared = {Structure::leaf(), {TensorSpec{Dims{2}, at::kLong}}};
  const auto bad = [](const Element&) { return Element(at::zeros({3}, at::kLong)); };
  const Dataset mapped = Dataset::range(3).map(make_function(bad, "bad"), {.element_spec = declared});
  EXPECT_EQ(mapped.element_spec(), declared);
  DatasetIterator iterator = mapped.iterate();
  const std::string message = message_of<c10::ValueError>([&] { iterator.next(); });
  EXPECT_TRUE(has(message, "map(bad): element 0"));
  EXPECT_TRUE(has(message, "(3,)"));
}

TEST(Map, RefusesAResultOfAnotherTypeThanThoseBefore) {
  const auto changing = [](const Element& element) {
    return scalar(element) < 2 ? element : Element(at::zeros({}));
  };
  for (const Dataset& source : {Dataset::range(4), generated(4)}) {
    DatasetIterator iterator = source.map(make_function(changing, "changing")).iterate();
    iterator.next();
    iterator.next();
    const std::string message = message_of<c10::ValueError>([&] { iterator.next(); });
    EXPECT_TRUE(has(message, "map(changing): element 2"));
    EXPECT_TRUE(has(message, "torch.float32"));
  }
}

TEST(Map, HasTheCardinalityOfItsInputButNoBatchSize) {
  const Dataset mapped = Dataset::range(8).batch(4).map(twice);
  EXPECT_EQ(mapped.cardinality(), 2);
  EXPECT_EQ(mapped.node()->batch_size(), std::nullopt);
}

TEST(Map, RowsAreUnknownUnlessTheFunctionIsRowWise) {
  const Dataset batches = Dataset::range(7).batch(3);
  EXPECT_EQ(plan_of(batches.map(twice))->rows(0), kUnknownRows);
  const PlanPtr plan = plan_of(batches.map(twice, {.row_wise = true}));
  EXPECT_EQ(plan->rows(2), 1);
  EXPECT_EQ(plan->rows_before(2), 6);
}

TEST(Map, RowWiseRunsOnTheTakenRowsOnly) {
  Values seen;
  const auto record = [&seen](const Element& element) {
    seen = items(element);
    return twice(element);
  };
  const PlanPtr plan = plan_of(Dataset::range(7).batch(3).map(record, {.row_wise = true}));
  const std::vector<Segment> segments = {{0, 2, 3}, {1, 0, 1}};
  EXPECT_EQ(items(plan->take_rows(segments)), Values({4, 6}));
  EXPECT_EQ(seen, Values({2, 3}));
}

TEST(Map, WithoutRowWiseWholeBatchesAreMappedAndThenCut) {
  const auto add_sum = [](const Element& element) {
    return Element(element.tensor() + element.tensor().sum());
  };
  const PlanPtr plan = plan_of(Dataset::range(7).batch(3).map(add_sum));
  const std::vector<Segment> segments = {{1, 1, 2}};
  EXPECT_EQ(items(plan->take_rows(segments)), Values({4 + 12}));
}

TEST(Map, RowWiseRefusesAFunctionThatChangesTheRows) {
  for (const Dataset& source : {Dataset::range(7), generated(7)}) {
    const Dataset mapped = source.batch(3).map(make_function(first_row, "first_row"), {.row_wise = true});
    EXPECT_EQ(message_of<c10::ValueError>([&] { mapped.iterate().next(); }),
              "map(first_row): element 0: with `row_wise=True` the function must return as many rows as it "
              "gets, but "
              "got 3 rows and returned 1 rows.");
  }
}

TEST(Map, SetsTheTraitsOfThePlan) {
  const Dataset rows = Dataset::range(8);
  EXPECT_EQ(plan_of(rows.shuffle({.seed = 1, .blocks = 2}).map(twice))->traits().together, 1);
  EXPECT_FALSE(plan_of(rows.map(twice))->traits().runs_user_code);
  EXPECT_TRUE(plan_of(rows.map(runs_user_code(twice)).batch(2))->traits().runs_user_code);
  EXPECT_EQ(plan_of(rows.map(twice))->traits().num_parallel_calls, 0);
  EXPECT_EQ(plan_of(rows.map(runs_user_code(twice), {.num_parallel_calls = 3}))->traits().num_parallel_calls,
            3);
  EXPECT_GE(plan_of(rows.map(runs_user_code(twice), {.num_parallel_calls = -1}))->traits().num_parallel_calls,
            1);
}

TEST(Map, RefusesAWrongNumberOfCalls) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).map(twice, {.num_parallel_calls = 0}); }),
            "map: `num_parallel_calls` must be at least 1, or -1 for automatic, but is 0.");
}

TEST(Map, DescribesItsCallAndIdentifiesItsResult) {
  const FunctionPtr function = make_function(twice, "twice");
  const Dataset mapped = Dataset::range(3).map(function, {.num_parallel_calls = 2, .deterministic = false});
  EXPECT_EQ(mapped.node()->describe(), "map(twice, num_parallel_calls=2, deterministic=False)");
  EXPECT_EQ(mapped.node()->identity(), Dataset::range(3).map(function).node()->identity());
}

TEST(Map, ObeysTheLaws) {
  expect_laws(Dataset::range(7).map(twice));
  expect_laws(generated(7).map(twice));
  expect_laws(Dataset::range(7).map(runs_user_code(twice)).batch(2));
  expect_laws(Dataset::range(7).batch(3).map(twice, {.row_wise = true}));
}

}  // namespace
}  // namespace torch_distinput

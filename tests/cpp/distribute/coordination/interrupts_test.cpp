// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "support/interrupts.h"

#include <functional>
#include <future>
#include <stdexcept>

#include <gtest/gtest.h>

#include "distribute/multi_worker_testing.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput::distribute_testing {
namespace {

using fakes::Interrupted;
using fakes::InterruptedCall;
using op_testing::runs_user_code;

/// All steps, taken by a consumer that continues after interrupts.
Steps steps_and_interrupts(DistributedIterator& iterator, int& interrupts) {
  const InterruptScope consumer([] {});
  Steps result;
  while (interrupts < 5) {
    try {
      const auto step = iterator.next();
      if (!step) break;
      result.push_back(rows(*step));
    } catch (const Interrupted&) {
      ++interrupts;
    }
  }
  return result;
}

/// Ten rows. The declared spec means that the function is called for rows only.
Dataset pipeline(bool stream, const FunctionPtr& function) {
  const Dataset rows = stream ? op_testing::generated(10) : Dataset::range(10);
  const ElementSpec scalars{Structure::leaf(), {TensorSpec{Dims{}, at::kLong}}};
  return rows.map(function, {.element_spec = scalars}).batch(4);
}

TEST(AnInterrupt, InAFunctionIsThrownOnceAndLosesNoStep) {
  for (const bool stream : {false, true}) {
    for (std::int64_t struck = 0; struck < 10; ++struck) {
      InterruptedCall call(struck);
      const Dataset dataset = pipeline(stream, runs_user_code(call.function()));
      const auto distributed = replicas(2).distribute_dataset(dataset, {.per_replica_buffer_size = 0});
      DistributedIterator iterator = distributed.iterate({.epoch = 0});
      int interrupts = 0;
      EXPECT_EQ(steps_and_interrupts(iterator, interrupts),
                (Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8}, {9}}}))
          << "stream: " << stream << ", call " << struck;
      EXPECT_EQ(interrupts, 1);
    }
  }
}

/// What two ranks see of the datasets that `make` gives them, where call `struck` of rank 0 is interrupted.
std::vector<Steps> steps_of_two(
    std::int64_t struck, const std::function<Dataset(std::int64_t rank, InterruptedCall& call)>& make) {
  auto ranks = ranks_of(2);
  return on_all(ranks, [&](std::int64_t number, Rank& rank) {
    InterruptedCall call(number == 0 ? struck : 1000);
    const auto distributed = rank.distribute_datasets_from_function(
        [&](const InputContext&) { return make(number, call); }, {.per_replica_buffer_size = 0});
    DistributedIterator iterator = distributed.iterate({.epoch = 0});
    int interrupts = 0;
    const Steps seen = steps_and_interrupts(iterator, interrupts);
    EXPECT_EQ(interrupts, number == 0 && call.struck() ? 1 : 0);
    return seen;
  });
}

TEST(AnInterrupt, OnOneRankKeepsTheRanksInStep) {
  for (const bool stream : {false, true}) {
    for (std::int64_t struck = 0; struck < 10; ++struck) {
      const auto all = steps_of_two(struck, [&](std::int64_t rank, InterruptedCall& call) {
        const Dataset own = pipeline(stream, runs_user_code(call.function()));
        return rank == 0 ? own : own.take(1);
      });
      EXPECT_EQ(all[0], (Steps{{{0, 1, 2, 3}}, {{4, 5, 6, 7}}, {{8, 9}}})) << "call " << struck;
      EXPECT_EQ(all[1], (Steps{{{0, 1, 2, 3}}, {{}}, {{}}})) << "call " << struck;
    }
  }
}

/// Calls `function`, and hides its interrupts.
std::function<Element(Element)> swallowing(const std::function<Element(Element)>& function) {
  return [function](const Element& element) {
    try {
      return function(element);
    } catch (const Interrupted&) {
      return element;
    }
  };
}

TEST(AnInterrupt, ThatLeavesAFinishedStepMakesThatStepAgain) {
  for (const bool stream : {false, true}) {
    for (std::int64_t struck = 0; struck < 10; ++struck) {
      const auto all = steps_of_two(struck, [&](std::int64_t, InterruptedCall& call) {
        return pipeline(stream, runs_user_code(swallowing(call.function())));
      });
      for (const Steps& seen : all)
        EXPECT_EQ(seen, (Steps{{{0, 1, 2, 3}}, {{4, 5, 6, 7}}, {{8, 9}}})) << "call " << struck;
    }
  }
}

TEST(AnInterrupt, DoesNotWaitForAFunctionThatBlocks) {
  std::promise<void> begun;
  std::promise<void> open_gate;
  const auto gate = open_gate.get_future().share();
  const auto block = [&](Element element) {
    if (op_testing::scalar(element) == 4) {
      begun.set_value();
      gate.wait();
    }
    return element;
  };
  const auto distributed = replicas(2).distribute_dataset(pipeline(/*stream=*/false, runs_user_code(block)));
  DistributedIterator iterator = distributed.iterate({.epoch = 0});
  EXPECT_EQ(rows(*iterator.next()), (std::vector<Rows>{{0, 1}, {2, 3}}));
  begun.get_future().wait();
  for (int i = 0; i < 2; ++i) {
    const InterruptScope consumer([] { throw std::runtime_error("Ctrl-C"); });
    EXPECT_THROW(iterator.next(), std::runtime_error);
  }
  open_gate.set_value();
  EXPECT_EQ(steps(iterator), (Steps{{{4, 5}, {6, 7}}, {{8}, {9}}}));
}

}  // namespace
}  // namespace torch_distinput::distribute_testing

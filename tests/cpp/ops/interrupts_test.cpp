// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "support/interrupts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using fakes::Interrupted;
using fakes::InterruptedCall;
using namespace op_testing;

/// Pipelines whose function runs in the consumer's thread.
const std::map<std::string, std::function<Dataset(const FunctionPtr&)>>& pipelines() {
  static const auto* const all = new std::map<std::string, std::function<Dataset(const FunctionPtr&)>>{
      {"map", [](const FunctionPtr& f) { return Dataset::range(9).map(f); }},
      {"map and batch", [](const FunctionPtr& f) { return Dataset::range(9).map(f).batch(2); }},
      {"map of batches", [](const FunctionPtr& f) { return Dataset::range(9).batch(2).map(f); }},
      {"map of a stream", [](const FunctionPtr& f) { return generated(9).map(f).batch(2); }},
      {"stream above a map",
       [](const FunctionPtr& f) {
         return Dataset::range(9).map(f).batch(2).filter([](const Element&) { return true; });
       }},
      {"filter",
       [](const FunctionPtr& f) {
         return generated(9).filter(runs_user_code([f](Element element) {
           f->apply({&element, 1});
           return Element(at::scalar_tensor(true, at::kBool));
         }));
       }},
      {"flat_map",
       [](const FunctionPtr& f) {
         return Dataset::range(3).flat_map([f](const Element&) { return Dataset::range(3).map(f); });
       }},
      {"interleave",
       [](const FunctionPtr& f) {
         return Dataset::range(3).interleave([f](const Element&) { return Dataset::range(3).map(f); },
                                             {.cycle_length = 2});
       }},
      {"unbatch", [](const FunctionPtr& f) { return Dataset::range(9).batch(3).map(f).unbatch(); }},
      {"skipping", [](const FunctionPtr& f) { return Dataset::range(9).map(f).with_options(skipping()); }},
      {"parallel interleave over it",
       [](const FunctionPtr& f) {
         return Dataset::range(3).map(f).interleave([](const Element&) { return Dataset::range(2); },
                                                    {.cycle_length = 2, .num_parallel_calls = 2});
       }},
      {"parallel map over it",
       [](const FunctionPtr& f) {
         return generated(9).map(f).map(runs_user_code(same), {.num_parallel_calls = 2});
       }},
  };
  return *all;
}

class AnInterrupt : public ::testing::TestWithParam<std::string> {};

TEST_P(AnInterrupt, InAFunctionIsThrownOnceAndLosesNoRow) {
  const auto& make = pipelines().at(GetParam());
  const auto expected = elements(make(runs_user_code(same)));
  for (std::int64_t struck = 0; struck < 9; ++struck) {
    InterruptedCall call(struck);
    DatasetIterator iterator = make(runs_user_code(call.function())).iterate({.epoch = 0});
    const InterruptScope consumer([] {});
    std::vector<Values> seen;
    int interrupts = 0;
    while (interrupts < 5) {
      try {
        const auto element = iterator.next();
        if (!element) break;
        seen.push_back(items(*element));
      } catch (const Interrupted&) {
        ++interrupts;
      }
    }
    EXPECT_EQ(seen, expected) << "interrupted in call " << struck;
    EXPECT_EQ(interrupts, call.struck() ? 1 : 0) << "interrupted in call " << struck;
  }
}

TEST_P(AnInterrupt, LeavesThePositionBeforeTheElement) {
  const auto& make = pipelines().at(GetParam());
  const Dataset whole = make(runs_user_code(same));
  InterruptedCall call(2);
  DatasetIterator iterator = make(runs_user_code(call.function())).iterate({.epoch = 0, .seed = 1});
  {
    const InterruptScope consumer([] {});
    EXPECT_THROW(elements(iterator), Interrupted);
  }
  DatasetIterator resumed = whole.iterate({.epoch = 0, .seed = 1});
  resumed.load(iterator.save());
  DatasetIterator uninterrupted = whole.iterate({.epoch = 0, .seed = 1});
  const auto all = elements(uninterrupted);
  const auto rest = elements(resumed);
  ASSERT_LE(rest.size(), all.size());
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), all.end() - std::ssize(rest)));
  EXPECT_EQ(rest, elements(iterator));
}

INSTANTIATE_TEST_SUITE_P(Everywhere, AnInterrupt, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, make] : pipelines()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace torch_distinput

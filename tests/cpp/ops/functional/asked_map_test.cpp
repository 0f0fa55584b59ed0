// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/asked_map.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "ops/op_testing.h"
#include "torch_distinput/process_function.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// What was asked of those who make results.
struct AskedLog {
  std::size_t room = 3;  ///< calls that may be under way
  std::int64_t block = 2;
  std::int64_t bad = -1;
  std::size_t most = 0;  ///< calls that were under way at a time
  std::map<std::int64_t, std::vector<Element>> calls;
  std::int64_t next = 0;
};

/// Triples each element when its call is taken, and refuses `bad`.
class TriplingCalls final : public FunctionCalls {
 public:
  explicit TriplingCalls(std::shared_ptr<AskedLog> log) : log_(std::move(log)) {}

  bool may_ask() const override { return log_->calls.size() < log_->room; }
  std::int64_t worth_a_call() const override { return log_->block; }
  std::int64_t ask(std::span<const Element> elements, std::uint64_t /*key*/,
                   std::span<const std::int64_t> /*numbers*/) override {
    log_->calls.emplace(log_->next, std::vector<Element>(elements.begin(), elements.end()));
    log_->most = std::max(log_->most, log_->calls.size());
    return log_->next++;
  }
  std::vector<std::exception_ptr> take(std::int64_t call, std::span<Element> results,
                                       std::span<const std::int64_t> numbers) override {
    const std::vector<Element> elements = std::move(log_->calls.at(call));
    log_->calls.erase(call);
    std::vector<std::exception_ptr> errors(numbers.size());
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (scalar(elements[i]) == log_->bad) {
        errors[i] = std::make_exception_ptr(std::runtime_error("refused"));
      } else {
        results[i] = elements[i].tensor() * 3;
      }
    }
    return errors;
  }
  void forget(std::int64_t call) noexcept override { log_->calls.erase(call); }
  std::vector<std::exception_ptr> apply(std::span<Element> elements, std::uint64_t key,
                                        std::span<const std::int64_t> numbers) override {
    return take(ask(elements, key, numbers), elements, numbers);
  }

 private:
  std::shared_ptr<AskedLog> log_;
};

class TriplesElsewhere final : public ProcessFunction {
 public:
  explicit TriplesElsewhere(std::shared_ptr<AskedLog> log) : log_(std::move(log)) {}

  void apply(std::span<Element> elements) const override {
    for (Element& element : elements) element = element.tensor() * 3;
  }
  bool runs_user_code() const override { return true; }
  bool locates_errors() const override { return true; }
  std::int64_t processes() const override { return 1; }
  bool may_open() const override { return true; }
  bool in_executor() const override { return true; }
  std::shared_ptr<FunctionProcesses> open() const override { return std::make_shared<TriplingCalls>(log_); }
  std::string name() const override { return "triple"; }

 private:
  std::shared_ptr<AskedLog> log_;
};

FunctionPtr triple() {
  return make_function([](Element element) { return Element(element.tensor() * 3); }, "triple");
}

Dataset tripled(const Dataset& input, const std::shared_ptr<AskedLog>& log) {
  return input.map(triple()).with_other_functions([&](const FunctionPtr& function, const MapOptions&) {
    return function->name() == "triple" ? std::make_shared<TriplesElsewhere>(log) : nullptr;
  });
}

TEST(AskedMap, AsksAheadAsFarAsThereIsRoom) {
  for (const std::size_t room : {1, 3, 100}) {
    const auto log = std::make_shared<AskedLog>();
    log->room = room;
    EXPECT_EQ(values(tripled(generated(40), log)), values(Dataset::range(0, 120, 3)));
    EXPECT_EQ(log->most, std::min<std::size_t>(room, 20));
  }
}

TEST(AskedMap, IsTheSamePipelineForItsStates) {
  const auto log = std::make_shared<AskedLog>();
  for (const Dataset& input : {generated(9), Dataset::range(9)}) {
    DatasetIterator here = input.map(triple()).iterate({.epoch = 0, .seed = 1});
    DatasetIterator elsewhere = tripled(input, log).iterate({.epoch = 0, .seed = 1});
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(here.next().has_value(), elsewhere.next().has_value());
      EXPECT_EQ(here.save().str(), elsewhere.save().str());
    }
  }
}

TEST(AskedMap, OtherFunctionsReplaceThoseOfAllMaps) {
  const auto log = std::make_shared<AskedLog>();
  const Dataset twice = generated(4).map(triple()).filter([](const Element&) { return true; }).map(triple());
  int seen = 0;
  const Dataset same = twice.with_other_functions([&](const FunctionPtr&, const MapOptions&) {
    ++seen;
    return nullptr;
  });
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(same.node(), twice.node());
  const Dataset other = twice.with_other_functions(
      [&](const FunctionPtr&, const MapOptions&) { return std::make_shared<TriplesElsewhere>(log); });
  EXPECT_EQ(values(other), Values({0, 9, 18, 27}));
  EXPECT_GE(log->next, 4);
}

TEST(AskedMap, OnlyTheElementThatFailsIsSkipped) {
  const auto log = std::make_shared<AskedLog>();
  log->bad = 5;
  const Dataset dataset = tripled(generated(8), log);
  EXPECT_EQ(values(dataset.with_options(skipping())), Values({0, 3, 6, 9, 12, 18, 21}));
  DatasetIterator iterator = dataset.iterate();
  for (int i = 0; i < 5; ++i) iterator.next();
  for (int i = 0; i < 2; ++i) EXPECT_THROW(iterator.next(), std::runtime_error);
}

TEST(AskedMap, CallsThatNobodyTakesAreForgotten) {
  const auto log = std::make_shared<AskedLog>();
  {
    DatasetIterator iterator = tripled(generated(40), log).iterate();
    const State begin = iterator.save();
    iterator.next();
    EXPECT_EQ(log->calls.size(), 2);
    iterator.load(begin);
    EXPECT_EQ(log->calls.size(), 0);
    iterator.next();
  }
  EXPECT_EQ(log->calls.size(), 0);
}

TEST(AskedMap, ObeysTheLaws) {
  for (const std::int64_t block : {1, 3, 20}) {
    const auto log = std::make_shared<AskedLog>();
    log->block = block;
    expect_laws(tripled(Dataset::range(11).shuffle({.seed = 3}), log));
    expect_laws(tripled(generated(11), log));
    expect_laws(tripled(generated(11), log).batch(2));
  }
}

}  // namespace
}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/process_function.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// What happened to the processes of a function.
struct ProcessLog {
  std::mutex mutex;
  Values sizes;  ///< of calls
  int opened = 0;
  int ended = 0;
};

/// Stands for processes: doubles each element on the caller's thread, refuses `bad` and is lost at `lost`.
/// From then on all calls say what was lost first, as those of real processes do: threads call in any order.
class DoublingProcesses final : public FunctionProcesses {
 public:
  DoublingProcesses(std::shared_ptr<ProcessLog> log, std::int64_t block, std::int64_t bad, std::int64_t lost)
      : log_(std::move(log)), block_(block), bad_(bad), lost_(lost) {
    ++log_->opened;
  }
  ~DoublingProcesses() override { ++log_->ended; }

  std::vector<std::exception_ptr> apply(std::span<Element> elements, std::uint64_t /*key*/,
                                        std::span<const std::int64_t> numbers) override {
    const std::lock_guard lock(log_->mutex);
    log_->sizes.push_back(std::ssize(elements));
    std::vector<std::exception_ptr> errors(elements.size());
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (!loss_ && scalar(elements[i]) == lost_)
        loss_ = "element " + std::to_string(numbers[i]) + " is lost";
      if (loss_) throw LostProcessError(*loss_);
      if (scalar(elements[i]) == bad_) {
        errors[i] = std::make_exception_ptr(std::runtime_error("refused"));
      } else {
        elements[i] = elements[i].tensor() * 2;
      }
    }
    return errors;
  }
  std::int64_t worth_a_call() const override { return block_; }

 private:
  std::shared_ptr<ProcessLog> log_;
  std::int64_t block_;
  std::int64_t bad_;
  std::int64_t lost_;
  std::optional<std::string> loss_;
};

class DoublesInProcesses final : public ProcessFunction {
 public:
  explicit DoublesInProcesses(std::shared_ptr<ProcessLog> log, std::int64_t block = 4, std::int64_t bad = -1,
                              std::int64_t lost = -1)
      : log_(std::move(log)), block_(block), bad_(bad), lost_(lost) {}

  void apply(std::span<Element> elements) const override {
    for (Element& element : elements) element = element.tensor() * 2;
  }
  bool runs_user_code() const override { return true; }
  bool locates_errors() const override { return true; }
  std::int64_t processes() const override { return 2; }
  bool may_open() const override { return true; }
  std::shared_ptr<FunctionProcesses> open() const override {
    return std::make_shared<DoublingProcesses>(log_, block_, bad_, lost_);
  }

 private:
  std::shared_ptr<ProcessLog> log_;
  std::int64_t block_;
  std::int64_t bad_;
  std::int64_t lost_;
};

TEST(ProcessFunction, GetsBlocksOnBothPaths) {
  for (const Dataset& input : {generated(40), Dataset::range(40)}) {
    const auto log = std::make_shared<ProcessLog>();
    EXPECT_EQ(values(input.map(std::make_shared<DoublesInProcesses>(log))), values(Dataset::range(0, 80, 2)));
    EXPECT_LT(log->sizes.size(), 20);
    EXPECT_EQ(log->opened, 1);
    EXPECT_EQ(log->ended, 1);
  }
}

TEST(ProcessFunction, IsOpenedOnceForAllEpochsOfARun) {
  for (const Dataset& input : {generated(5), Dataset::range(5)}) {
    const auto log = std::make_shared<ProcessLog>();
    const Dataset dataset = input.map(std::make_shared<DoublesInProcesses>(log)).repeat(3);
    EXPECT_EQ(values(dataset).size(), 15);
    EXPECT_EQ(log->opened, 1);
    values(dataset);
    EXPECT_EQ(log->opened, 2);
    EXPECT_EQ(log->ended, 2);
  }
}

TEST(ProcessFunction, EndsWithTheDatasetThatWasAnElement) {
  const auto log = std::make_shared<ProcessLog>();
  const Dataset dataset = Dataset::range(6).flat_map(
      [&](const Element&) { return generated(3).map(std::make_shared<DoublesInProcesses>(log)); });
  DatasetIterator iterator = dataset.iterate();
  for (int i = 0; i < 18; ++i) iterator.next();
  EXPECT_GE(log->opened, 6);
  EXPECT_GE(log->ended, log->opened - 1);
}

TEST(ProcessFunction, EndsWhenItsIteratorIsClosed) {
  for (const Dataset& input : {generated(40), Dataset::range(40)}) {
    const auto log = std::make_shared<ProcessLog>();
    DatasetIterator iterator = input.map(std::make_shared<DoublesInProcesses>(log)).iterate();
    iterator.next();
    iterator.close();
    EXPECT_EQ(log->ended, 1);
  }
}

TEST(ProcessFunction, OnlyTheElementThatFailsIsSkipped) {
  const auto log = std::make_shared<ProcessLog>();
  const Dataset dataset =
      generated(10).map(std::make_shared<DoublesInProcesses>(log, 4, 5)).with_options(skipping());
  EXPECT_EQ(values(dataset), Values({0, 2, 4, 6, 8, 12, 14, 16, 18}));
}

TEST(ProcessFunction, ALossIsNeverSkipped) {
  const auto log = std::make_shared<ProcessLog>();
  const auto function = std::make_shared<DoublesInProcesses>(log, 4, -1, 5);
  for (const Dataset& dataset : {generated(10).map(function), Dataset::range(10).map(function)}) {
    DatasetIterator iterator = dataset.with_options(skipping()).iterate();
    const auto read = [&] {
      while (iterator.next()) {
      }
    };
    for (int i = 0; i < 2; ++i) EXPECT_EQ(message_of<LostProcessError>(read), "element 5 is lost");
  }
}

TEST(ProcessFunction, ObeysTheLaws) {
  for (const std::int64_t block : {1, 3, 20}) {
    const auto function = std::make_shared<DoublesInProcesses>(std::make_shared<ProcessLog>(), block);
    expect_laws(Dataset::range(11).shuffle({.seed = 3}).map(function));
    expect_laws(generated(11).map(function));
    expect_laws(generated(11).map(function).batch(2));
  }
}

}  // namespace
}  // namespace torch_distinput

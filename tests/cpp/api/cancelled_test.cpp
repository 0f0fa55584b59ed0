// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>
#include <utility>

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {
namespace {

/// Yields a few batches of two rows, then waits for more until it is told to stop.
struct Waiting final : GeneratorSource {
  struct Run final : Generator {
    explicit Run(const Waiting& source) : waiting(source) {}
    std::optional<Element> next() override {
      // A step is delivered when the next one is known.
      if (yielded++ < 3) return Element(at::full({2}, 7, at::kLong));
      waiting.waits = true;
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
      while (!cancelled() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      waiting.stopped = std::chrono::steady_clock::now() < until;
      return std::nullopt;
    }
    const Waiting& waiting;
    int yielded = 0;
  };
  std::unique_ptr<Generator> open() const override { return std::make_unique<Run>(*this); }
  bool runs_user_code() const override { return true; }
  mutable std::atomic<bool> waits = false;
  mutable std::atomic<bool> stopped = false;
};

/// Yields a few batches of two rows, then waits until the test lets it go on, and is deaf to `cancelled`.
struct Deaf final : GeneratorSource {
  struct Run final : Generator {
    explicit Run(const Deaf& source) : waits(source.waits), go_on(source.go_on) {}
    std::optional<Element> next() override {
      if (yielded++ < 3) return Element(at::full({2}, 7, at::kLong));
      waits->count_down();
      go_on->wait();
      return std::nullopt;
    }
    std::shared_ptr<std::latch> waits;
    std::shared_ptr<std::latch> go_on;
    int yielded = 0;
  };
  std::unique_ptr<Generator> open() const override { return std::make_unique<Run>(*this); }
  std::shared_ptr<std::latch> waits = std::make_shared<std::latch>(1);
  std::shared_ptr<std::latch> go_on = std::make_shared<std::latch>(1);
};

const ElementSpec kPair{Structure::leaf(), {TensorSpec{Dims{kUnknownDim}, at::kLong}}};

/// Closes `iterator` once the generator waits on the thread that reads ahead.
template <class Iterator>
void close_while_it_waits(Iterator iterator, const Waiting& source) {
  ASSERT_TRUE(iterator.next());
  while (!source.waits) std::this_thread::yield();
  iterator.close();
  EXPECT_TRUE(source.stopped);
}

TEST(Cancelled, TellsAWaitingGeneratorThatItsIteratorWasClosed) {
  const auto source = std::make_shared<Waiting>();
  close_while_it_waits(Dataset::from_generator(source, kPair).prefetch(2).iterate(), *source);
}

TEST(Cancelled, TellsTheGeneratorOfADistributedDataset) {
  const auto source = std::make_shared<Waiting>();
  const MirroredStrategy strategy({"cpu", "cpu"});
  close_while_it_waits(strategy.distribute_dataset(Dataset::from_generator(source, kPair)).iterate(),
                       *source);
}

/// Closes `iterator` while the generator waits, and then lets the generator go on.
template <class Iterator>
void close_without_it(Iterator iterator, std::shared_ptr<Deaf> source) {
  ASSERT_TRUE(iterator.next());
  source->waits->wait();
  const auto start = std::chrono::steady_clock::now();
  iterator.close();
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, kCloseTime);
  EXPECT_LT(took, std::chrono::seconds{10});  // of a generator that never returns
  EXPECT_THROW(iterator.next(), FailedPreconditionError);
  iterator.save();
  {
    const Iterator gone = std::move(iterator);
  }
  // Its thread then ends by itself and frees the generator.
  const std::weak_ptr<std::latch> go_on = source->go_on;
  source->go_on->count_down();
  source.reset();
  while (!go_on.expired()) std::this_thread::yield();
}

TEST(Cancelled, CloseDoesNotWaitForAGeneratorThatIsDeafToIt) {
  auto source = std::make_shared<Deaf>();
  auto iterator = Dataset::from_generator(source, kPair).prefetch(2).iterate();
  close_without_it(std::move(iterator), std::move(source));
}

TEST(Cancelled, CloseOfADistributedIteratorDoesNotWaitForIt) {
  auto source = std::make_shared<Deaf>();
  auto iterator =
      MirroredStrategy({"cpu", "cpu"}).distribute_dataset(Dataset::from_generator(source, kPair)).iterate();
  close_without_it(std::move(iterator), std::move(source));
}

TEST(Cancelled, IsFalseWhereNobodyCanStopTheCall) { EXPECT_FALSE(cancelled()); }

}  // namespace
}  // namespace torch_distinput

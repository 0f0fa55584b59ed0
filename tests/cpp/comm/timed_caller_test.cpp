// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/timed_caller.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

std::string error_of(TimedCaller& thread, std::function<void()> call) {
  try {
    thread.run(std::move(call)).get();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(TimedCaller, ReturnsAndThrowsWhatItsCallsDo) {
  TimedCaller thread;
  EXPECT_EQ(thread.run([] { return 7; }).get(), 7);
  EXPECT_EQ(error_of(thread, [] { throw std::runtime_error("refused"); }), "refused");
  EXPECT_EQ(thread.run([] { return std::string("after an error"); }).get(), "after an error");
}

TEST(TimedCaller, MakesTheCallsOfManyThreads) {
  TimedCaller thread;
  int sum = 0;
  std::vector<std::future<void>> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.push_back(std::async(std::launch::async, [&] {
      for (int i = 0; i < 200; ++i) thread.run([&sum] { ++sum; });
    }));
  }
  for (auto& caller : callers) caller.get();
  EXPECT_EQ(sum, 800);
}

TEST(TimedCaller, GivesUpOnASlowCallAndOnAllLaterCalls) {
  auto frozen = std::make_shared<std::promise<void>>();
  {
    TimedCaller thread;
    thread.expect_within(std::chrono::milliseconds(20));
    thread.expect_within(std::chrono::hours(1));
    EXPECT_EQ(error_of(thread, [frozen] { frozen->get_future().wait(); }), "no answer for 0.02 s");
    EXPECT_EQ(error_of(thread, [] {}), "no answer for 0.02 s");
  }
  // The destructor did not wait for the call, which ends now.
  frozen->set_value();
}

/// A call that waits for `ended` lasts until `release`.
struct Frozen {
  std::shared_ptr<std::promise<void>> promise = std::make_shared<std::promise<void>>();
  std::shared_future<void> ended = promise->get_future().share();
  void release() { promise->set_value(); }
};

TEST(TimedCaller, AnInterruptEndsTheWaitButNotTheCall) {
  TimedCaller thread;
  Frozen frozen;
  auto made = std::make_shared<std::atomic<bool>>(false);
  struct Interrupt {};
  {
    const InterruptScope ctrl_c([] { throw Interrupt(); });
    EXPECT_THROW(thread.run([frozen, made] {
      frozen.ended.wait();
      *made = true;
    }),
                 Interrupt);
  }
  frozen.release();
  // Calls are made in order, and the interrupted one is not dropped.
  EXPECT_TRUE(thread.run([made] { return made->load(); }).get());
}

TEST(TimedCaller, MakesTheCallsThatItWasGivenAlsoAfterItsEnd) {
  Frozen frozen;
  const auto made = std::make_shared<std::promise<void>>();
  struct Interrupt {};
  {
    TimedCaller thread;
    const InterruptScope ctrl_c([] { throw Interrupt(); });
    EXPECT_THROW(thread.run([frozen] { frozen.ended.wait(); }), Interrupt);
    EXPECT_THROW(thread.run([made] { made->set_value(); }), Interrupt);
  }
  frozen.release();
  EXPECT_EQ(made->get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(TimedCaller, ANewLimitHoldsForCallsUnderWay) {
  TimedCaller thread;
  Frozen frozen;
  std::promise<void> waits;
  auto patient = std::async(std::launch::async, [&] {
    const InterruptScope looks([&, looked = false]() mutable {
      if (!std::exchange(looked, true)) waits.set_value();
    });
    return error_of(thread, [frozen] { frozen.ended.wait(); });
  });
  waits.get_future().wait();
  // The shorter limit also holds for the call that is under way.
  thread.expect_within(std::chrono::milliseconds(20));
  EXPECT_EQ(patient.get(), "no answer for 0.02 s");
  frozen.release();
}

}  // namespace
}  // namespace torch_distinput

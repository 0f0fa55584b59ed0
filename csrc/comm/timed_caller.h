// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "base/process_owned.h"

namespace torch_distinput {

/// Thrown for a call that took too long, and for every later call.
class NoAnswer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Makes calls that may never return, such as a call to a host that is frozen. Nothing can end such a call,
/// so one thread of this object, which the first call starts, makes all calls in order, and is abandoned when
/// one takes too long. Safe from any thread.
class TimedCaller {
 public:
  TimedCaller();
  /// Does not wait: the thread ends after the calls that it was given.
  ~TimedCaller();
  TimedCaller(const TimedCaller&) = delete;
  TimedCaller& operator=(const TimedCaller&) = delete;

  /// Limits every call to `limit` from now on, including those under way. The shortest limit ever set holds;
  /// it is 5 minutes at first.
  void expect_within(std::chrono::duration<double> limit);

  /// Makes `call` and waits for it. Returns a ready future with what it returned or threw. `call` must own
  /// all that it uses, as it may outlive this call. Throws NoAnswer when it takes too long. An exception of
  /// `interrupt_check()` ends the wait; `call` is still made, and its result is dropped.
  template <class Call>
  auto run(Call call) {
    auto task = std::make_shared<std::packaged_task<decltype(call())()>>(std::move(call));
    auto answer = task->get_future();
    enter([task = std::move(task)] { (*task)(); });
    wait_for([&answer](std::chrono::duration<double> limit) {
      return answer.wait_for(limit) == std::future_status::ready;
    });
    return answer;
  }

 private:
  struct Shared;
  void enter(std::function<void()> job);
  /// The limit of a call. Throws NoAnswer if a call has taken longer.
  std::chrono::duration<double> limit() const;
  void wait_for(const std::function<bool(std::chrono::duration<double>)>& answered);

  ProcessOwned<Shared> shared_;
};

}  // namespace torch_distinput

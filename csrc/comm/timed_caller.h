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

/// A call that lasted too long, or one after it.
class NoAnswer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Makes calls that may never return, such as those to a host that is frozen: nothing ends them, so a thread
/// of its own makes them, one after the other, and is left to itself when one lasts too long. Any thread may
/// call.
class TimedCaller {
 public:
  TimedCaller();
  ~TimedCaller();
  TimedCaller(const TimedCaller&) = delete;
  TimedCaller& operator=(const TimedCaller&) = delete;

  /// From now on no call may last longer than `limit`, or than a shorter one that was asked for before.
  void expect_within(std::chrono::duration<double> limit);

  /// What `call` returns or throws, ready. It must own all that it uses. Throws NoAnswer when it lasts too
  /// long, and then at every later call. What `interrupt_check()` throws ends the wait: the call is made all
  /// the same, and nobody hears its answer.
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
  /// The limit. Throws NoAnswer if a call has lasted longer.
  std::chrono::duration<double> limit() const;
  void wait_for(const std::function<bool(std::chrono::duration<double>)>& answered);

  ProcessOwned<Shared> shared_;
};

}  // namespace torch_distinput

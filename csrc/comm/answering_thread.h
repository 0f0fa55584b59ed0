// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/process_owned.h"

namespace torch_distinput {

/// Makes calls that may never return, such as those to a host that is frozen: nothing ends them, so a thread
/// of its own makes them, one after the other, and is left to itself when one lasts too long. Any thread may
/// call.
class AnsweringThread {
 public:
  AnsweringThread();
  ~AnsweringThread();
  AnsweringThread(const AnsweringThread&) = delete;
  AnsweringThread& operator=(const AnsweringThread&) = delete;

  /// From now on no call may last longer than `limit`, or than a shorter one that was asked for before.
  void expect_within(std::chrono::duration<double> limit);

  /// What `call` returns or throws. It must own all that it uses. Throws std::runtime_error when it lasts too
  /// long, and then at every later call.
  template <class Call>
  auto run(Call call) {
    auto task = std::make_shared<std::packaged_task<decltype(call())()>>(std::move(call));
    auto answer = task->get_future();
    enter([task = std::move(task)] { (*task)(); });
    wait_for([&answer](std::chrono::duration<double> limit) {
      return answer.wait_for(limit) == std::future_status::ready;
    });
    return answer.get();
  }

 private:
  struct Shared;
  void enter(std::function<void()> job);
  void wait_for(const std::function<bool(std::chrono::duration<double>)>& answered);

  ProcessOwned<Shared> shared_;
};

}  // namespace torch_distinput

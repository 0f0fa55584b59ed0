// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "base/stage.h"

namespace torch_distinput {

/// A function that a waiting thread calls about every `kPollInterval`, without any lock. It may throw
/// (Ctrl-C): that ends the wait, nothing is lost, and the caller may wait again. Empty: the thread sleeps
/// without interruption.
using Poll = std::function<void()>;

/// How often a waiting thread calls its Poll.
inline constexpr std::chrono::milliseconds kPollInterval{50};

/// Waits on `wake` until `done()` is true; `done` is called with `lock` held. Returns with `lock` held; where
/// `poll` throws, `lock` is unlocked. `stage`: what the time counts as.
template <class Done>
void wait_polling(std::condition_variable& wake, std::unique_lock<std::mutex>& lock, const Poll& poll,
                  Done done, Stage stage = Stage::kWait) {
  if (done()) return;
  const StageScope waits(stage);
  if (!poll) {
    wake.wait(lock, done);
    return;
  }
  while (!wake.wait_for(lock, kPollInterval, done)) {
    lock.unlock();
    poll();
    lock.lock();
  }
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace torch_distinput {

/// Called on the waiting thread, without any lock, about every `kPollInterval` while it waits. It may
/// throw (Ctrl-C): the wait is abandoned, nothing is lost, and waiting again works.
using Poll = std::function<void()>;

inline constexpr std::chrono::milliseconds kPollInterval{50};

/// Waits on `wake` until `done()`, which is called with `lock` held. When `poll` throws, `lock` is unlocked.
template <class Done>
void wait_polling(std::condition_variable& wake, std::unique_lock<std::mutex>& lock, const Poll& poll,
                  Done done) {
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

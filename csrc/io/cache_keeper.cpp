// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_keeper.h"

#include <utility>

namespace torch_distinput {

void CacheKeeper::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (!thread_) thread_.emplace("tdi cache", [this] { run(); });
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void CacheKeeper::run() {
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !tasks_.empty(); });
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
  }
}

}  // namespace torch_distinput

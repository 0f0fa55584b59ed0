// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/process_owned.h"
#include "core/stop_scope.h"
#include "runtime/bounded_queue.h"
#include "runtime/worker_thread.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {

/// A thread that reads ahead of its consumer, and the queue between them. One thread may call `pop`.
///
/// The thread starts in the constructor; the destructor stops and joins it, without waiting for data
/// (StopScope). In a forked child, where the thread does not exist, destroying it does nothing.
template <class T>
class ReadingThread {
 public:
  /// `read` returns the next item, or nullopt at the end; what it throws, `pop` throws after the items before
  /// it. At most `capacity` items wait in the queue, and one more in the thread. `name`: as that of
  /// WorkerThread.
  ReadingThread(const std::string& name, std::size_t capacity, std::function<std::optional<T>()> read)
      : queue_(std::make_shared<BoundedQueue<T>>(capacity)),
        thread_(name, [this, read = std::move(read)] { run(read); }) {}
  ~ReadingThread() {
    if (!queue_.inherited()) queue_->close();
  }
  ReadingThread(const ReadingThread&) = delete;
  ReadingThread& operator=(const ReadingThread&) = delete;

  /// Takes the oldest item; waits while there is none. Returns nullopt, or throws, once the thread has ended.
  std::optional<T> pop() { return queue_->pop(interrupt_check()); }
  /// Items that wait in the queue now.
  std::size_t size() const { return queue_->size(); }
  /// Times that `pop` slept.
  std::int64_t waits() const { return queue_->waits(); }

 private:
  void run(const std::function<std::optional<T>()>& read) noexcept {
    const StopScope stop([this] { return queue_->closed(); });
    try {
      while (std::optional<T> item = read()) {
        if (!queue_->push(std::move(*item))) return;
      }
      queue_->close();
    } catch (...) {
      queue_->fail(std::current_exception());
    }
  }

  ProcessOwned<BoundedQueue<T>> queue_;
  WorkerThread thread_;
};

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/counters.h"
#include "base/polling.h"
#include "base/process_owned.h"
#include "base/stage.h"

namespace torch_distinput {

/// A first-in first-out queue of at most `capacity` items. All methods are safe from any thread. Before it is
/// destroyed it must be closed, and the threads that wait in it must have returned. A queue that a forked
/// child inherits must not be used there; destroying it is safe.
template <class T>
class BoundedQueue {
 public:
  /// Throws std::invalid_argument unless `capacity` >= 1.
  explicit BoundedQueue(std::size_t capacity) : queue_(std::make_shared<State>(capacity)) {}

  /// Adds `item`; waits while the queue is full. Returns false and drops the item once the queue is closed.
  bool push(T item);

  /// Takes the oldest item; waits while there is none. Once the queue is closed and empty, every call returns
  /// nullopt or throws the exception of `fail`. What `poll` throws ends the wait and changes nothing.
  std::optional<T> pop(const Poll& poll = {});

  /// Accepts no further items; those in the queue can still be taken. Idempotent.
  void close() { close_with(nullptr); }

  /// Closes with an error, which `pop` throws after the items. The first `close` or `fail` counts.
  void fail(std::exception_ptr error) { close_with(std::move(error)); }

  /// Number of items in the queue now.
  std::size_t size() const;
  /// Whether `close` or `fail` was called.
  bool closed() const;

  /// Times that `pop` slept.
  std::int64_t waits() const noexcept { return queue_->waits.value(); }

 private:
  struct State {
    explicit State(std::size_t most) : capacity(most) {
      if (most < 1) throw std::invalid_argument("bounded_queue: `capacity` must be at least 1, but is 0.");
    }

    const std::size_t capacity;
    Counter waits;

    // Guarded by mutex.
    std::mutex mutex;
    std::condition_variable not_full;
    std::condition_variable not_empty;
    std::deque<T> items;
    std::exception_ptr error;
    bool closed = false;
  };

  void close_with(std::exception_ptr error);

  ProcessOwned<State> queue_;
};

template <class T>
bool BoundedQueue<T>::push(T item) {
  State& queue = *queue_;
  {
    std::unique_lock lock(queue.mutex);
    queue.not_full.wait(lock, [&] { return queue.closed || queue.items.size() < queue.capacity; });
    if (queue.closed) return false;
    queue.items.push_back(std::move(item));
  }
  queue.not_empty.notify_one();
  return true;
}

template <class T>
std::optional<T> BoundedQueue<T>::pop(const Poll& poll) {
  State& queue = *queue_;
  std::optional<T> item;
  {
    std::unique_lock lock(queue.mutex);
    note_queue(static_cast<std::int64_t>(queue.items.size()), static_cast<std::int64_t>(queue.capacity));
    const auto settled = [&] { return queue.closed || !queue.items.empty(); };
    if (!settled()) {
      queue.waits.add();
      wait_polling(queue.not_empty, lock, poll, settled);
    }
    if (queue.items.empty()) {
      if (queue.error) std::rethrow_exception(queue.error);
      return std::nullopt;
    }
    item.emplace(std::move(queue.items.front()));
    queue.items.pop_front();
  }
  queue.not_full.notify_one();
  return item;
}

template <class T>
std::size_t BoundedQueue<T>::size() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->items.size();
}

template <class T>
bool BoundedQueue<T>::closed() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->closed;
}

template <class T>
void BoundedQueue<T>::close_with(std::exception_ptr error) {
  State& queue = *queue_;
  {
    const std::lock_guard lock(queue.mutex);
    if (queue.closed) return;
    queue.closed = true;
    queue.error = std::move(error);
  }
  queue.not_full.notify_all();
  queue.not_empty.notify_all();
}

}  // namespace torch_distinput

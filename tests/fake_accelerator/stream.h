// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace torch_distinput::fake {

/// A thread that executes queued work in order. Safe from any thread. Runs until the process ends.
class Stream {
 public:
  Stream() : thread_([this] { run(); }) { thread_.detach(); }

  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    ++queued_;
    wake_.notify_all();
  }
  std::atomic<bool> records{false};  ///< claims to record a graph

  bool idle() {
    const std::lock_guard lock(mutex_);
    return done_ == queued_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return done_ == queued_; });
  }

 private:
  [[noreturn]] void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return !work_.empty(); });
      const auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
      ++done_;
      wake_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  std::int64_t queued_ = 0;
  std::int64_t done_ = 0;
  std::thread thread_;
};

/// The state of an event: how often it was recorded, and which recording streams have reached. Queued work
/// shares its ownership. Safe from any thread.
class Mark {
 public:
  std::int64_t next() {
    const std::lock_guard lock(mutex_);
    return ++recorded_;
  }
  std::int64_t recorded() {
    const std::lock_guard lock(mutex_);
    return recorded_;
  }
  void reach(std::int64_t version) {
    const std::lock_guard lock(mutex_);
    reached_ = std::max(reached_, version);
    wake_.notify_all();
  }
  bool reached(std::int64_t version) {
    const std::lock_guard lock(mutex_);
    return reached_ >= version;
  }
  void wait(std::int64_t version) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return reached_ >= version; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::int64_t recorded_ = 0;
  std::int64_t reached_ = 0;
};

}  // namespace torch_distinput::fake

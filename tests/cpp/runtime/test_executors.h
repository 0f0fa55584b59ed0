// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/executor.h"

namespace torch_distinput {

/// Wraps an executor; its destructor waits until all tasks have run. Leak checkers cannot see tasks that are
/// still queued in oneTBB's own memory when the process ends.
class DrainingExecutor final : public Executor {
 public:
  explicit DrainingExecutor(std::shared_ptr<Executor> inner) : inner_(std::move(inner)) {}
  ~DrainingExecutor() override {
    for (int left = pending_->load(); left > 0; left = pending_->load()) pending_->wait(left);
  }

  void submit(std::function<void()> task) override {
    pending_->fetch_add(1);
    inner_->submit([task = std::move(task), pending = pending_]() mutable {
      task();
      task = nullptr;
      pending->fetch_sub(1);
      pending->notify_all();
    });
  }
  int concurrency() const noexcept override { return inner_->concurrency(); }

 private:
  std::shared_ptr<Executor> inner_;
  std::shared_ptr<std::atomic<int>> pending_ = std::make_shared<std::atomic<int>>(0);
};

/// An executor whose tasks run only when the test calls `run_one` or `run_all`, on the test's thread.
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(int concurrency) : concurrency_(concurrency) {}

  void submit(std::function<void()> task) override {
    ++submitted_;
    tasks_.push_back(std::move(task));
  }
  int concurrency() const noexcept override { return concurrency_; }

  std::size_t submitted() const { return submitted_; }
  std::size_t queued() const { return tasks_.size(); }

  void run_one() {
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
  }
  void run_all() {
    while (!tasks_.empty()) run_one();
  }

 private:
  int concurrency_;
  std::size_t submitted_ = 0;
  std::deque<std::function<void()>> tasks_;
};

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include "runtime/executor.h"

namespace torch_distinput {

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

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
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

}  // namespace torch_distinput

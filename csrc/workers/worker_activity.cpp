// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/worker_activity.h"

namespace torch_distinput {
namespace {

std::int64_t now() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void WorkerActivity::note(std::int64_t what) noexcept {
  since_.store(now(), std::memory_order_relaxed);
  what_.store(what, std::memory_order_release);
}

Activity WorkerActivity::read() const noexcept {
  const int stack_fd = stack_fd_.load() - 1;
  const std::int64_t what = what_.load(std::memory_order_acquire);
  if (what == kStarting) return {Activity::Kind::kStarting, -1, std::chrono::nanoseconds(0), stack_fd};
  const std::chrono::nanoseconds duration(now() - since_.load(std::memory_order_relaxed));
  if (what == kIdle) return {Activity::Kind::kIdle, -1, duration, stack_fd};
  return {Activity::Kind::kBusy, what - kFirstTask, duration, stack_fd};
}

void WorkerActivity::clear() noexcept {
  stack_fd_.store(0);
  what_.store(kStarting);
}

}  // namespace torch_distinput

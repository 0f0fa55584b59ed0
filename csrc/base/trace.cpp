// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/trace.h"

#include <array>
#include <chrono>
#include <mutex>
#include <new>
#include <utility>

#include <pthread.h>
#include <unistd.h>

#include "base/fork_guard.h"

namespace torch_distinput {
namespace trace_internal {
std::atomic<bool> on{false};
}
namespace {

/// `mutex` guards the rest. Leaked: threads may outlive static objects.
struct Recording {
  std::mutex mutex;
  ForkGuard fork_guard;
  std::size_t most = 0;
  Trace trace;

  /// A forked child has a copy of the lock, which a thread of the parent may hold.
  bool mine() const noexcept { return !fork_guard.inherited(); }
};

std::int64_t now_ns() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

Recording& recording() {
  static auto& it = *new Recording;
  return it;
}

/// REQUIRES: the lock.
void name_thread(Trace& trace, std::int64_t thread) {
  for (const ThreadName& known : trace.threads) {
    if (known.thread == thread) return;
  }
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  trace.threads.push_back({thread, name.data()});
}

template <class Item>
void keep(Recording& to, std::vector<Item>& items, const Item& item) {
  if (items.size() < to.most) {
    items.push_back(item);
  } else {
    ++to.trace.dropped;
  }
}

}  // namespace

bool start_trace(std::size_t most) {
  Recording& to = recording();
  const std::lock_guard lock(to.mutex);
  if (tracing()) return false;
  // Threads that a trace before this one has met may still look at it.
  if (!to.mine()) to.fork_guard = ForkGuard();
  to.most = most;
  to.trace = {};
  to.trace.begin = now_ns();
  trace_internal::on = true;
  return true;
}

Trace stop_trace() {
  Recording& from = recording();
  const std::lock_guard lock(from.mutex);
  if (!trace_internal::on.exchange(false)) return {};
  from.trace.end = now_ns();
  return std::exchange(from.trace, {});
}

void trace_span(Span span) noexcept {
  Recording& to = recording();
  if (!to.mine()) return;
  try {
    const std::lock_guard lock(to.mutex);
    if (!tracing()) return;
    span.thread = ::gettid();
    name_thread(to.trace, span.thread);
    keep(to, to.trace.spans, span);
  } catch (const std::bad_alloc&) {
    return;  // the program goes on without this span
  }
}

void trace_queue(std::int64_t ready, std::int64_t room) noexcept {
  Recording& to = recording();
  if (!to.mine()) return;
  try {
    const std::lock_guard lock(to.mutex);
    if (tracing()) keep(to, to.trace.queues, {now_ns(), ready, room});
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace torch_distinput

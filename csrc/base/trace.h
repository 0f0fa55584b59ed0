// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/counters.h"
#include "torch_distinput/api.h"

namespace torch_distinput {

/// A stage of a thread, in ns of the steady clock. `thread`: the kernel's number of the thread.
struct Span {
  Stage stage;
  std::int64_t begin;
  std::int64_t end;
  std::int64_t thread = 0;
};

/// What a queue held at a moment when an item was taken.
struct QueueSample {
  std::int64_t time;
  std::int64_t ready;
  std::int64_t room;
};

struct ThreadName {
  std::int64_t thread;
  std::string name;
};

/// What the threads of the process did while tracing was on.
struct Trace {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::vector<Span> spans;
  std::vector<QueueSample> queues;
  std::vector<ThreadName> threads;
  std::int64_t dropped = 0;  ///< spans and samples beyond the limit of `start_trace`
};

/// Begins to keep spans and samples, at most `most` of each. Returns false where the process traces already.
TDI_API bool start_trace(std::size_t most);
/// Ends the trace and returns it; an empty one if none was started.
TDI_API Trace stop_trace();

namespace trace_internal {
extern std::atomic<bool> on;
}
/// Whether spans are kept now.
inline bool tracing() noexcept { return trace_internal::on.load(std::memory_order_relaxed); }

/// Keep a span of this thread, or a sample; do nothing in a forked child. Safe from any thread.
void trace_span(Span span) noexcept;
void trace_queue(std::int64_t ready, std::int64_t room) noexcept;

}  // namespace torch_distinput

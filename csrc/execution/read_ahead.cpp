// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/read_ahead.h"

#include <algorithm>

#include "runtime/arena.h"
#include "runtime/worker_thread.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kDefaultBytes = std::int64_t{64} << 20;
/// The work that a woken thread should find: waking it takes 20 us, and it looks for more work for some
/// hundred us before it sleeps again.
constexpr std::int64_t kBurstBytes = std::int64_t{512} << 10;
constexpr std::chrono::microseconds kBurstTime{1000};
constexpr std::int64_t kMaxBurst = 32;
constexpr std::int64_t kTinyBytes = 4096;
constexpr std::int64_t kLargeBytes = std::int64_t{4} << 20;
static_assert(kLargeBytes >= kBurstBytes, "a burst is one large element");
constexpr std::chrono::microseconds kTinyTime{100};
/// Elements made faster than this gain nothing from another thread: passing them between threads costs as
/// much.
constexpr std::chrono::microseconds kInlineTime{2};
/// The same where they are handed over one by one, and the time of each is looked at.
constexpr std::chrono::microseconds kInlineThreshold{5};
/// What the elements of a block may take together.
constexpr std::int64_t kBlockBytes = std::int64_t{8} << 20;
/// Bursts that lie ready or are being made where nothing tells how many threads will take part.
constexpr std::int64_t kBurstsAhead = 4;
constexpr std::chrono::milliseconds kQuickTime{5};
/// A sleeping thread that has a processor begins long before.
constexpr std::chrono::milliseconds kTimeToBegin{1};
/// Threads that wait for a network. The requests that are under way are those of what was announced, however
/// many threads wait.
constexpr std::int64_t kRemoteThreads = 8;

/// Elements that the pipeline asks to read ahead; -1: it does not ask.
std::int64_t asked_depth(const PlanTraits& traits, const Options& options) {
  if (traits.read_ahead >= 0) return traits.read_ahead;
  return options.prefetch.value_or(-1);
}

/// Whether what comes over a network may be in memory already, so that nothing waits, and waits would be
/// seen. Those of plans of others, which are none that wait for files, are not.
bool may_be_known(const PlanTraits& traits) {
  return traits.remote && traits.blocks && !traits.runs_user_code;
}

ThreadUse threads_for(const PlanTraits& traits, const ExecutionContext& execution, std::int64_t asked) {
  if (!traits.runs_user_code) {
    const std::int64_t arena = asked == 0 ? 0 : execution.executor->concurrency();
    if (traits.remote) return {"tdi-read", arena == 0 ? 0 : kRemoteThreads};
    return {traits.blocks ? "tdi-read" : kArenaThreads, arena};
  }
  if (traits.num_parallel_calls > 0) return {"tdi-pool", traits.num_parallel_calls};
  return {"tdi-pool", asked > 0 ? 1 : 0};
}

std::shared_ptr<Executor> executor_for(const PlanTraits& traits, const ExecutionContext& execution,
                                       std::int64_t asked) {
  const ThreadUse use = threads_for(traits, execution, asked);
  if (use.count == 0) return serial_executor();
  if (use.name == kArenaThreads) return execution.executor;
  const int threads = static_cast<int>(use.count);
  return make_thread_pool(threads, use.name,
                          may_be_known(traits) ? execution.executor->concurrency() : threads);
}

/// Consecutive chunks that a thread makes in one go.
std::int64_t choose_burst(const PlanTraits& traits, std::int64_t bytes, std::int64_t most) {
  if (traits.runs_user_code || traits.remote) return 1;
  return std::clamp<std::int64_t>(std::min(kBurstBytes / bytes, most), 1, kMaxBurst);
}

/// As many of `elements` as there is room for, but one at least; and by default one for each thread, since
/// large elements would be made one after the other otherwise.
std::int64_t with_room(std::int64_t elements, std::int64_t bytes, std::int64_t threads,
                       const Options& options) {
  const std::int64_t least = options.prefetch_bytes ? 1 : std::max<std::int64_t>(1, threads);
  return std::clamp<std::int64_t>(elements, 1, std::max(least, prefetch_bytes(options) / bytes));
}

/// Elements that one call makes because it finds them faster together. Users' code runs for one element at a
/// time, and of those that come over a network no more is known than the least bytes that they have.
std::int64_t count_together(const PlanTraits& traits, std::int64_t bytes) {
  if (traits.runs_user_code || traits.remote) return 1;
  return std::clamp<std::int64_t>(kBurstBytes / bytes, 1, traits.together);
}

/// Begins as for local files, which `threads` read. A depth that was `asked` for stays.
void narrow(ReadAhead& ahead, int threads, std::int64_t asked) {
  ahead.narrow_tasks = threads;
  if (asked <= 0) ahead.narrow_depth = 2 * ahead.burst * threads;
}

}  // namespace

ThreadUse plan_threads(const PlanTraits& traits, const ExecutionContext& execution) {
  return threads_for(traits, execution, asked_depth(traits, execution.options));
}

std::int64_t prefetch_bytes(const Options& options) { return options.prefetch_bytes.value_or(kDefaultBytes); }

std::int64_t announced_bytes(const PlanTraits& traits, const Options& options) {
  return asked_depth(traits, options) == 0 ? 0 : prefetch_bytes(options);
}

bool is_tiny(const PlanTraits& traits, const ExecutionContext& execution, const Sample& sample) {
  if (asked_depth(traits, execution.options) == 0) return false;
  if (traits.remote) return !traits.runs_user_code && sample.bytes > 0 && sample.bytes <= kTinyBytes;
  return !traits.runs_user_code && sample.bytes <= kTinyBytes && sample.time <= kTinyTime;
}

bool is_large(std::int64_t bytes) { return bytes >= kLargeBytes; }

bool is_quick(const PlanTraits& traits, const Sample& sample) {
  return !traits.runs_user_code && !traits.remote && sample.time <= kQuickTime;
}

ReadAhead choose_read_ahead(const PlanTraits& traits, const ExecutionContext& execution,
                            const Sample& sample) {
  const std::int64_t asked = asked_depth(traits, execution.options);
  ReadAhead result;
  result.executor = executor_for(traits, execution, asked);
  result.may_block = traits.remote;
  const std::int64_t bytes = std::max<std::int64_t>(1, sample.bytes);
  const std::int64_t together = count_together(traits, bytes);
  if (asked != 0)
    result.chunk = std::max(together, std::clamp<std::int64_t>(kBlockBytes / bytes, 1, traits.block));
  const std::int64_t threads = result.executor->concurrency();
  if (threads == 0) return result;
  if (is_tiny(traits, execution, sample)) result.chunk = std::max(together, kTinyChunk);
  if (result.chunk > 1 && sample.time <= kInlineTime && !traits.remote) {
    result.executor = serial_executor();
    return result;
  }

  const std::int64_t time = std::max<std::int64_t>(1, together * sample.time.count());
  const std::int64_t burst =
      choose_burst(traits, together * bytes, std::chrono::nanoseconds(kBurstTime).count() / time);
  // Two bursts for each thread: one is used up while the other is made. Elements of unknown bytes may be
  // large.
  const std::int64_t bursts = sample.bytes == 0 && traits.remote ? 1 : 2;
  std::int64_t elements = asked > 0 ? asked : bursts * threads * burst * result.chunk;
  elements = std::max(elements, traits.num_parallel_calls);
  if (traits.block > 1) elements = std::max(elements, threads * result.chunk);
  if (asked <= 0 || execution.options.prefetch_bytes)
    elements = with_room(elements, bytes, threads, execution.options);

  result.chunk = std::min(result.chunk, elements);
  result.depth = elements / result.chunk;
  result.burst = std::clamp<std::int64_t>(burst, 1, std::max<std::int64_t>(1, result.depth / 2));
  if (may_be_known(traits)) narrow(result, execution.executor->concurrency(), asked);
  const bool waits = traits.remote && !may_be_known(traits);
  if (is_large(sample.bytes) || sample.time > kQuickTime || waits) result.time_to_begin = kTimeToBegin;
  return result;
}

ReadAhead choose_read_ahead(const PlanTraits& traits, const ExecutionContext& execution,
                            const Options& options, const Estimate& estimate) {
  const std::optional<std::int64_t>& asked = options.prefetch;
  const std::int64_t bytes = std::max<std::int64_t>(1, estimate.bytes.value_or(1));
  ReadAhead result;
  result.may_block = traits.remote;
  result.executor = estimate.depth == 0 ? serial_executor() : executor_for(traits, execution, estimate.depth);
  result.depth = std::max({estimate.depth, traits.read_ahead, std::int64_t{1}});
  if (traits.runs_user_code) result.depth = std::max(result.depth, traits.num_parallel_calls);
  if (estimate.bytes) {
    // Half as many, because it is not known yet how long one takes.
    result.burst = choose_burst(traits, 2 * bytes, kMaxBurst / 2);
    if (!traits.runs_user_code) {
      if (bytes <= kTinyBytes && !traits.remote) result.inline_threshold = kInlineThreshold;
      result.depth = std::max(result.depth, kBurstsAhead * result.burst);
    }
  }
  if (asked) result.depth = std::max<std::int64_t>(1, *asked);
  if (estimate.bytes && (!asked || options.prefetch_bytes))
    result.depth = with_room(result.depth, bytes, result.executor->concurrency(), options);
  result.burst = std::min(result.burst, result.depth);
  if (is_large(bytes) || traits.remote) result.time_to_begin = kTimeToBegin;
  return result;
}

}  // namespace torch_distinput

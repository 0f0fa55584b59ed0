// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "execution/execution_context.h"
#include "execution/own_threads.h"
#include "runtime/executor.h"
#include "runtime/ordered_producer.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// How a plan is read ahead.
struct ReadAhead {
  std::shared_ptr<Executor> executor;  ///< without threads: nothing is read ahead
  std::int64_t chunk = 1;              ///< consecutive elements fetched with one call
  std::int64_t depth = 1;              ///< chunks ready or being made
  std::int64_t burst = 1;              ///< chunks a thread makes in one go
  /// Chunks that take less time are made by the thread that takes them.
  std::chrono::nanoseconds inline_threshold{0};
  /// Whoever takes a chunk lets a woken thread begin it within this time.
  std::chrono::nanoseconds time_to_begin{0};
  /// Chunks may wait for a network, however long the ones before took.
  bool may_block = false;
  /// Chunks and threads until something had to be waited for; 0: as above.
  std::int64_t narrow_depth = 0;
  int narrow_tasks = 0;

  ProducerOptions options() const {
    return {.depth = depth,
            .burst = burst,
            .inline_threshold = inline_threshold,
            .time_to_begin = time_to_begin,
            .may_block = may_block,
            .narrow_depth = narrow_depth,
            .narrow_tasks = narrow_tasks};
  }
};

/// The measured cost of a plan's elements.
struct Sample {
  std::int64_t bytes;             ///< of one element; 0 for a remote plan: not known
  std::chrono::nanoseconds time;  ///< to make one element
};

/// What is known of a plan's elements before one is made.
struct Estimate {
  std::int64_t depth;                 ///< elements to read ahead if nothing else is asked for; 0: none
  std::optional<std::int64_t> bytes;  ///< of one element
};

/// Consecutive elements that are made together when they are tiny.
inline constexpr std::int64_t kTinyChunk = 32;

/// Whether elements should be made several at a time, because passing them between threads one by one would
/// cost more than making them: at most 4 KiB and 100 us each, or 4 KiB in a remote plan, whose times say
/// nothing. False where the pipeline asks that nothing be read ahead.
bool is_tiny(const PlanTraits& traits, const ExecutionContext& execution, const Sample& sample);

/// Whether elements of at least `bytes` are read ahead before one was measured: to make one takes longer than
/// to wake a thread, and nothing but their size decides how to read them.
bool is_large(std::int64_t bytes);

/// Whether a second element should be measured before anything is read ahead: one that took at most 5 ms says
/// little about the others. False for a remote plan.
bool is_quick(const PlanTraits& traits, const Sample& sample);

/// The threads that make the elements of a plan. Where these are tiny, the caller may do their work, which
/// only a measured element can tell.
ThreadUse plan_threads(const PlanTraits& traits, const ExecutionContext& execution);

/// Bytes that may be read ahead: the option `prefetch_bytes`, else 64 MiB. Without the option, large elements
/// may take more: as many as `prefetch` asks for, else one for each thread.
std::int64_t prefetch_bytes(const Options& options);

/// Bytes of a remote plan that a ReadAnnouncer announces ahead: those that may be read ahead; 0 where the
/// pipeline asks that nothing be read ahead.
std::int64_t announced_bytes(const PlanTraits& traits, const Options& options);

/// How to read a plan ahead: as the pipeline asks and, where it leaves the choice, by the cost of its
/// elements. A remote plan waits for a network and not for a processor: it has threads of its own, of a fixed
/// number, and the time of an element, which depends on what was announced, decides nothing. Where its bytes
/// may be in memory already (a cache), it begins with as few threads and elements as local files have.
ReadAhead choose_read_ahead(const PlanTraits& traits, const ExecutionContext& execution,
                            const Sample& sample);

/// The same before anything was seen. `depth` holds for the user's code; native plans make more of tiny
/// elements, and all fewer where `prefetch_bytes` would be exceeded. The option `prefetch` overrules all but
/// a `prefetch_bytes` that was given.
/// `options`: of the pipeline, which may be one of several that run on `execution`.
ReadAhead choose_read_ahead(const PlanTraits& traits, const ExecutionContext& execution,
                            const Options& options, const Estimate& estimate);

}  // namespace torch_distinput

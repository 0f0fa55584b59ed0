// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/execution_context.h"

#include <utility>

#include "base/counters.h"
#include "core/profiler_ranges.h"
#include "runtime/arena.h"
#include "runtime/buffer_pool.h"
#include "runtime/mix_keys.h"

namespace torch_distinput {
namespace {

std::shared_ptr<Executor> arena_of(const std::optional<std::int64_t>& num_threads) {
  if (!num_threads) return shared_arena();
  if (*num_threads == 0) return serial_executor();
  return make_arena(static_cast<int>(*num_threads));
}

}  // namespace

std::shared_ptr<ExecutionContext> make_execution_context(const Options& options) {
  options.validate();
  show_stages_to_profiler();
  return std::make_shared<ExecutionContext>(
      ExecutionContext{options, arena_of(options.num_threads), host_pool(), std::make_shared<Counters>()});
}

IterContext epoch_context(std::shared_ptr<ExecutionContext> execution, std::uint64_t seed, std::int64_t epoch,
                          bool stream_only) {
  IterContext context;
  context.execution = std::move(execution);
  context.seed = seed;
  context.epoch_key = mix_keys(0, static_cast<std::uint64_t>(epoch));
  context.stream_only = stream_only;
  return context;
}

}  // namespace torch_distinput

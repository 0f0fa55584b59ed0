// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/network_watch.h"

namespace torch_distinput {

std::optional<NetworkStats> NetworkWatch::stats(const Counters& counters) const {
  if (!counters.reads_objects.load()) return std::nullopt;
  EngineCounts engine = Engine::counts_of_process();
  engine -= engine_;
  const FetchCounts& fetches = engine.fetches;
  const ReadCounts& counts = ReadCounts::of_process();
  const std::int64_t unread = counts.unread.value() - unread_;
  return NetworkStats{.wait_ns = counters.network_ns.value(),
                      .bytes = counts.asked.value() - asked_,
                      .wasted_bytes = engine.wasted_bytes + unread,
                      .requests = fetches.requests,
                      .retries = fetches.retries,
                      .hedges = fetches.hedges,
                      .hedges_won = fetches.hedges_won,
                      .throttled = fetches.throttled,
                      .stalled = fetches.stalled,
                      .busy_ns = fetches.busy,
                      .full_ns = fetches.full,
                      .request_ns = fetches.running,
                      .answer_ns = fetches.unanswered,
                      .answer_p50 = fetches.answers.quantile(0.5),
                      .answer_p99 = fetches.answers.quantile(0.99),
                      .limit = engine.limit,
                      .cached_bytes = counts.cached.value() - cached_,
                      .cached_blocks = counts.cached_blocks.value() - cached_blocks_,
                      .damaged_blocks = counts.damaged_blocks.value() - damaged_blocks_};
}

}  // namespace torch_distinput

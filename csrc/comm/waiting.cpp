// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/waiting.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <c10/util/Exception.h>

#include "comm/rank_ranges.h"
#include "comm/restarts.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInterruptInterval{50};
constexpr std::chrono::seconds kBrief{1};
/// Ranks whose activity a warning tells.
constexpr std::size_t kMaxActivities = 8;

void warn(int rank, const std::vector<LateRank>& ranks, const WaitOptions& wait_options) {
  std::ostringstream text;
  text << wait_options.what << ": rank " << rank << " has waited " << wait_options.warn_after.count()
       << " s for " << name_ranks(ranks) << ".";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMaxActivities); ++i)
    if (!ranks[i].activity.empty()) text << " Rank " << ranks[i].rank << " " << ranks[i].activity << ".";
  TORCH_WARN(text.str());
}

}  // namespace

void wait_until(int rank, const std::function<bool()>& ready,
                const std::function<std::vector<LateRank>()>& missing, const WaitOptions& wait_options,
                const std::function<void()>& sleep) {
  const auto start = Clock::now();
  auto next_interrupt = start + kInterruptInterval;
  auto urgent_since = start;
  bool warned = false;
  while (!ready()) {
    const auto now = Clock::now();
    if (now - start >= wait_options.timeout) {
      std::ostringstream text;
      text << wait_options.what << ": rank " << rank << " waited " << wait_options.timeout.count()
           << " s (`peer_timeout`) for " << name_ranks(missing())
           << ". Every rank must open its iterators in the same order and ask for their first step."
           << advice_after_restart();
      throw DistributedDatasetError(text.str());
    }
    if (!wait_options.urgent()) urgent_since = now;
    if (now - urgent_since >= wait_options.warn_after && !std::exchange(warned, true))
      warn(rank, missing(), wait_options);
    if (interrupt_check() && now >= next_interrupt) {
      interrupt_check()();
      next_interrupt = now + kInterruptInterval;
    }
    wait_options.check();
    sleep();
  }
}

BriefWait::BriefWait()
    : scope_([end = Clock::now() + kBrief] {
        if (Clock::now() >= end) throw std::runtime_error("the store did not answer within one second");
      }) {}

std::string name_ranks(const std::vector<int>& ranks) {
  RankRanges ranges;
  for (const int rank : ranks) ranges.add(rank);
  return name_ranks(ranges);
}

std::string name_ranks(const std::vector<LateRank>& ranks) {
  RankRanges ranges;
  for (const LateRank& late : ranks) ranges.add(late.rank);
  return name_ranks(ranges);
}

}  // namespace torch_distinput

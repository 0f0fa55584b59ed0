// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/waiting.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include <c10/util/Exception.h>

#include "comm/restarts.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInterruptInterval{50};
constexpr std::chrono::seconds kBrief{1};

/// The time between two polls after a wait of `waited`: a fraction of it, so that polls are few and none
/// comes much too late.
Clock::duration pause_after(Clock::duration waited, bool urgent) {
  using std::chrono::microseconds;
  constexpr Clock::duration kShortest = microseconds{100};
  if (urgent) return std::clamp<Clock::duration>(waited / 8, kShortest, microseconds{2'000});
  return std::clamp<Clock::duration>(waited / 4, kShortest, microseconds{20'000});
}

void warn(int rank, const std::vector<int>& ranks, const WaitOptions& wait_options) {
  std::ostringstream text;
  text << wait_options.what << ": rank " << rank << " has waited " << wait_options.warn_after.count()
       << " s for " << name_ranks(ranks) << ".";
  if (wait_options.activity)
    for (const int other : ranks) text << " Rank " << other << " " << wait_options.activity(other) << ".";
  TORCH_WARN(text.str());
}

}  // namespace

void wait_until(int rank, const std::function<bool()>& ready,
                const std::function<std::vector<int>()>& missing, const WaitOptions& wait_options) {
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
    const bool urgent = wait_options.urgent();
    if (!urgent) urgent_since = now;
    if (now - urgent_since >= wait_options.warn_after && !std::exchange(warned, true))
      warn(rank, missing(), wait_options);
    if (interrupt_check() && now >= next_interrupt) {
      interrupt_check()();
      next_interrupt = now + kInterruptInterval;
    }
    wait_options.check();
    std::this_thread::sleep_for(pause_after(now - start, urgent));
  }
}

BriefWait::BriefWait()
    : scope_([end = Clock::now() + kBrief] {
        if (Clock::now() >= end) throw std::runtime_error("the store did not answer within one second");
      }) {}

std::string name_ranks(const std::vector<int>& ranks) {
  std::ostringstream text;
  text << (ranks.size() == 1 ? "rank " : "ranks ");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text << (i + 1 == ranks.size() ? " and " : ", ");
    text << ranks[i];
  }
  return text.str();
}

}  // namespace torch_distinput

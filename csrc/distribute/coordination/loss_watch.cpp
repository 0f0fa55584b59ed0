// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/loss_watch.h"

#include <algorithm>
#include <utility>

namespace torch_distinput {
namespace {

/// Missed signs after which a peer is lost, if that takes longer than the timeout.
constexpr double kMaxMissed = 3;

}  // namespace

std::optional<LossWatch::Seconds> LossWatch::check_host(const std::string& text, Seconds next, Time now,
                                                        Seconds most, Seconds timeout) {
  const Seconds length = host_.check(text, now, most);
  if (length < std::max<Seconds>(timeout, kMaxMissed * next) || std::exchange(host_lost_, true))
    return std::nullopt;
  return length;
}

LossWatch::RankSilence LossWatch::check_rank(int rank, Time heard, Seconds interval, Time now, Seconds most,
                                             Seconds timeout) {
  const Seconds length = ranks_[rank].check(heard, now, most);
  const bool lost = length >= std::max<Seconds>(timeout, kMaxMissed * interval) && lost_.insert(rank).second;
  return {length, lost};
}

}  // namespace torch_distinput

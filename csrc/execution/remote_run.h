// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "base/slow_reads.h"
#include "core/stop_flag.h"
#include "execution/read_announcer.h"
#include "remote/ahead_claim.h"

namespace torch_distinput {

/// What threads share that read a remote plan ahead, from one position on: the announcements, in whose name
/// bytes are asked for, and the end of their waits when what they read is no longer wanted.
struct RemoteRun {
  ReadAnnouncer announcer;
  std::shared_ptr<AheadClaim> claim = std::make_shared<AheadClaim>();
  StopFlag stop = {};
  /// Whether anything has come, or was asked for, over a network or from a disk.
  mutable std::atomic<bool> was_slow{false};

  /// Returns what `work()` returns, which announces and reads.
  template <class Work>
  auto run(const Work& work) const {
    const AheadClaim::Scope asks(*claim);
    const SlowReadWatch watch(was_slow);
    return stop.run(work);
  }
};

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "comm/heartbeat.h"
#include "distribute/coordination/silence.h"

namespace torch_distinput {

/// Decides who is lost from the signs of life that one process hears: of the next host, if it speaks for its
/// own, and of ranks of its host. Has no thread and no clock. One thread at a time.
///
/// In all functions `most` is the longest time between two checks that counts as silence, and `timeout` how
/// long that may last.
class LossWatch {
 public:
  using Seconds = std::chrono::duration<double>;
  using Time = std::chrono::steady_clock::time_point;

  /// The length of the silence of the next host, once it is lost. `text`: its last heartbeat; `next`: the
  /// time within which that promised another.
  std::optional<Seconds> check_host(const std::string& text, Seconds next, Time now, Seconds most,
                                    Seconds timeout);
  /// The next host has sent no heartbeat yet, or has left.
  void no_host(Time now) { host_.reset(now); }
  struct RankSilence {
    Seconds length;
    bool lost = false;  ///< known with this check
  };
  /// Of a rank of this host, which gave its last sign at `heard`. `interval`: between two of its signs.
  RankSilence check_rank(int rank, Time heard, Seconds interval, Time now, Seconds most, Seconds timeout);

 private:
  Silence<std::string> host_;
  bool host_lost_ = false;
  std::map<int, Silence<Time>> ranks_;
  std::set<int> lost_;
};

}  // namespace torch_distinput

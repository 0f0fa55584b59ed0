// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "remote/time_histogram.h"

namespace torch_distinput {

/// Counts of a FetchSchedule since its start; an attempt is a request.
struct FetchCounts {
  std::int64_t requests = 0;    ///< attempts that were started
  std::int64_t retries = 0;     ///< of these, repetitions
  std::int64_t hedges = 0;      ///< of these, doubled ones
  std::int64_t hedges_won = 0;  ///< doubled ones that answered first
  std::int64_t throttled = 0;   ///< answers that said so
  std::int64_t stalled = 0;     ///< attempts that were given up: no bytes came, or hardly any
  Nanos busy = 0;               ///< time in which attempts were under way
  Nanos full = 0;               ///< part of it: the limit of a server kept fetches waiting
  Nanos running = 0;            ///< time of all attempts, added up
  Nanos unanswered = 0;         ///< part of it: before the first byte
  TimeHistogram answers = {};   ///< times to the first byte

  /// Takes away the counts of a moment `before`.
  FetchCounts& operator-=(const FetchCounts& before) noexcept {
    for (const auto member :
         {&FetchCounts::requests, &FetchCounts::retries, &FetchCounts::hedges, &FetchCounts::hedges_won,
          &FetchCounts::throttled, &FetchCounts::stalled, &FetchCounts::busy, &FetchCounts::full,
          &FetchCounts::running, &FetchCounts::unanswered})
      this->*member -= before.*member;
    answers -= before.answers;
    return *this;
  }
};

}  // namespace torch_distinput

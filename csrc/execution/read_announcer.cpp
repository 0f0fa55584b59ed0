// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/read_announcer.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>
#include <vector>

namespace torch_distinput {
namespace {

/// Items of one call: enough for a source to join requests of neighbours, also where items are small, and few
/// enough for their positions to need little memory.
constexpr std::int64_t kTogether = 4096;
/// This part of the horizon is announced at a time: of the default one as much as the largest request, so
/// that neighbours are asked for together, and the rest keeps a link busy.
constexpr std::int64_t kParts = 8;
/// Bounds the work of the first call where items are tiny.
constexpr std::int64_t kMostAhead = std::int64_t{1} << 16;
/// Beside what is being made, so that a source always has a request under way.
constexpr std::int64_t kLeastAhead = 2;

}  // namespace

ReadAnnouncer::ReadAnnouncer(Announce announce, std::int64_t begin, std::int64_t end, std::int64_t horizon,
                             std::int64_t item_bytes)
    : announce_(std::move(announce)),
      end_(end),
      horizon_(horizon),
      next_(begin),
      measured_items_(item_bytes > 0 ? 1 : 0),
      measured_bytes_(item_bytes) {}

void ReadAnnouncer::begin(std::int64_t first, std::int64_t count) {
  const std::lock_guard lock(mutex_);
  const std::int64_t ahead = ahead_of(count);
  const std::int64_t until = end_ - first > count + ahead ? first + count + ahead : end_;
  const bool is_announced = next_ >= first + count;
  if (is_announced && until < end_ && until - next_ < ahead / kParts) return;
  while (next_ < until) {
    const std::int64_t from = next_;
    // Sources ask for the items of a call in the order of their places: what is made soon must not wait for
    // what comes long after it, so that a call has as many as were announced before it at most.
    const std::int64_t before = std::max<std::int64_t>(0, from - first);
    next_ = std::min(from + std::clamp<std::int64_t>(before + count, 1, kTogether), until);
    try {
      announce_(from, next_);
    } catch (const std::exception&) {
    }
  }
}

void ReadAnnouncer::measure(std::int64_t count, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  measured_items_ += count;
  measured_bytes_ += bytes;
}

std::int64_t ReadAnnouncer::ahead_of(std::int64_t count) const {
  if (horizon_ == 0) return 0;
  const std::int64_t least = kLeastAhead * std::max<std::int64_t>(1, count);
  if (measured_items_ == 0) return least;
  const std::int64_t item_bytes = std::max<std::int64_t>(1, measured_bytes_ / measured_items_);
  return std::max(least, std::min(horizon_ / item_bytes, kMostAhead));
}

ReadAnnouncer::Announce announce_elements(PlanPtr plan) {
  return [plan = std::move(plan)](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(end - begin));
    std::iota(positions.begin(), positions.end(), begin);
    plan->will_read(positions);
  };
}

}  // namespace torch_distinput

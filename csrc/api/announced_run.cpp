// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/announced_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <numeric>
#include <vector>

#include "execution/read_ahead.h"
#include "execution/read_announcer.h"
#include "remote/announced_requests.h"

namespace torch_distinput {
namespace {

/// So many announcements are looked at, spread over the run.
constexpr std::int64_t kSamples = 64;

/// What announcements of some elements ask for, for each element.
struct Announced {
  double requests = 0;
  double bytes = 0;
};

/// Announces elements of [`begin`, `end`), `together` of them at a time.
Announced sample(const Plan& plan, std::int64_t begin, std::int64_t end, std::int64_t together) {
  const std::int64_t groups = (end - begin + together - 1) / together;
  const std::int64_t taken = std::min(groups, kSamples);
  std::int64_t elements = 0;
  const AnnouncedRequests announced;
  for (std::int64_t i = 0; i < taken; ++i) {
    // Without a product that overflows.
    const std::int64_t first = begin + (groups / taken * i + groups % taken * i / taken) * together;
    std::vector<std::int64_t> positions(static_cast<std::size_t>(std::min(together, end - first)));
    std::iota(positions.begin(), positions.end(), first);
    elements += std::ssize(positions);
    plan.will_read(positions);
  }
  const auto count = static_cast<double>(std::max<std::int64_t>(elements, 1));
  return {static_cast<double>(announced.count()) / count, static_cast<double>(announced.bytes()) / count};
}

std::uint64_t run(const Plan& plan, const ExecutionContext& execution) {
  const std::int64_t size = plan.size();
  if (size == 0 || !plan.traits().remote) return 0;
  Announced later = sample(plan, 0, size, 1);
  const auto bytes = std::max<std::int64_t>(1, static_cast<std::int64_t>(later.bytes));
  if (is_tiny(plan.traits(), execution, {bytes, std::chrono::nanoseconds(0)}))
    later = sample(plan, 0, size, kTinyChunk);
  // Each thread begins an element before the bytes of one are known. Then what may be read ahead is announced
  // at once, many elements together, and after that one follows each that is made.
  const bool is_measured = plan.least_bytes() > 0;
  const std::int64_t threads = plan_threads(plan.traits(), execution).count;
  const std::int64_t begun = is_measured ? 0 : std::min(size, threads + ReadAnnouncer::kLeastAhead);
  const std::int64_t ahead = announced_bytes(plan.traits(), execution.options) / bytes;
  const std::int64_t at_once = std::min({size - begun, ahead, ReadAnnouncer::kMostAhead});
  const double first =
      at_once == 0 ? 0 : sample(plan, begun, begun + at_once, ReadAnnouncer::kTogether).requests;
  const double requests =
      first * static_cast<double>(at_once) + later.requests * static_cast<double>(size - at_once);
  return static_cast<std::uint64_t>(std::llround(requests));
}

}  // namespace

std::optional<std::uint64_t> announced_by(const Plan& plan, const ExecutionContext& execution) {
  try {
    return run(plan, execution);
  } catch (const std::exception&) {
    return std::nullopt;  // whoever reads is told what is wrong
  }
}

}  // namespace torch_distinput

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

/// Elements that are announced together.
struct Together {
  std::int64_t begin;
  std::int64_t end;
};

/// What the announcements ask for, for each element that they name.
struct Announced {
  double requests;
  double bytes;
};

/// Makes some of the `count` announcements, of which `at` tells each.
template <class At>
Announced sample(const Plan& plan, std::int64_t count, At at) {
  const std::int64_t taken = std::min(count, kSamples);
  std::int64_t elements = 0;
  const AnnouncedRequests announced;
  for (std::int64_t i = 0; i < taken; ++i) {
    // Spread over all, without a product that overflows.
    const Together together = at(count / taken * i + count % taken * i / taken);
    std::vector<std::int64_t> positions(static_cast<std::size_t>(together.end - together.begin));
    std::iota(positions.begin(), positions.end(), together.begin);
    elements += std::ssize(positions);
    plan.will_read(positions);
  }
  const auto each = static_cast<double>(std::max<std::int64_t>(elements, 1));
  return {static_cast<double>(announced.count()) / each, static_cast<double>(announced.bytes()) / each};
}

/// What follows one another, `together` elements at a time.
Announced sample_one_by_one(const Plan& plan, std::int64_t together) {
  const std::int64_t size = plan.size();
  return sample(plan, (size - 1) / together + 1, [&](std::int64_t i) {
    return Together{i * together, i * together + std::min(together, size - i * together)};
  });
}

/// The announcements until what may be read ahead is announced: each thread begins an element before the
/// bytes of one are known, which are `bytes`.
std::vector<Together> beginning(const Plan& plan, const ExecutionContext& execution, std::int64_t bytes) {
  std::vector<Together> result;
  const std::int64_t last = plan.size() - 1;
  ReadAnnouncer announcer([&](std::int64_t begin, std::int64_t end) { result.push_back({begin, end}); }, 0,
                          plan.size(), announced_bytes(plan.traits(), execution.options), plan.least_bytes());
  const std::int64_t threads = plan_threads(plan.traits(), execution).count;
  for (std::int64_t i = 0; i < std::min(threads, last); ++i) announcer.begin(i, 1);
  announcer.measure(1, bytes);
  announcer.begin(std::min(threads, last), 1);
  return result;
}

std::uint64_t run(const Plan& plan, const ExecutionContext& execution) {
  const std::int64_t size = plan.size();
  if (size == 0 || !plan.traits().remote) return 0;
  Announced later = sample_one_by_one(plan, 1);
  const auto bytes = std::max<std::int64_t>(1, static_cast<std::int64_t>(later.bytes));
  if (is_tiny(plan.traits(), execution, {bytes, std::chrono::nanoseconds(0)}))
    later = sample_one_by_one(plan, kTinyChunk);
  const std::vector<Together> first = beginning(plan, execution, bytes);
  const Announced at_first =
      sample(plan, std::ssize(first), [&](std::int64_t i) { return first[static_cast<std::size_t>(i)]; });
  const auto begun = static_cast<double>(first.back().end);
  return static_cast<std::uint64_t>(
      std::llround(at_first.requests * begun + later.requests * (static_cast<double>(size) - begun)));
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

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

/// So many elements are looked at, spread over the run, to know their bytes.
constexpr std::int64_t kElements = 64;
/// So many announcements are looked at, spread over the run. Each may name thousands of elements.
constexpr std::int64_t kAnnouncements = 16;

/// Elements that are announced together.
struct Together {
  std::int64_t begin;
  std::int64_t end;
};

/// What announcements ask for, for each element that they name.
struct Announced {
  double requests;
  double bytes;
};

/// Makes `taken` of the `count` announcements, of which `at` tells each.
template <class At>
Announced sample(const Plan& plan, std::int64_t count, std::int64_t taken, At at) {
  taken = std::min(count, taken);
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

/// What follows one another from `begin` on, `together` elements at a time.
Announced sample_after(const Plan& plan, std::int64_t begin, std::int64_t together, std::int64_t taken) {
  const std::int64_t left = plan.size() - begin;
  return sample(plan, left / together + (left % together != 0 ? 1 : 0), taken, [&](std::int64_t i) {
    const std::int64_t from = begin + i * together;
    return Together{from, from + std::min(together, plan.size() - from)};
  });
}

/// The announcements of a run until what may be read ahead is announced, and those that come next, as do all
/// after them.
struct Beginning {
  std::vector<Together> first;
  std::vector<Together> next;
};

/// Each thread begins an element before the bytes of one are known, which are `bytes`.
Beginning beginning(const Plan& plan, const ExecutionContext& execution, std::int64_t bytes) {
  Beginning result;
  std::vector<Together>* made = &result.first;
  ReadAnnouncer announcer([&](std::int64_t begin, std::int64_t end) { made->push_back({begin, end}); }, 0,
                          plan.size(), announced_bytes(plan.traits(), execution.options), plan.least_bytes());
  const std::int64_t threads = std::min(plan_threads(plan.traits(), execution).count, plan.size() - 1);
  for (std::int64_t i = 0; i < threads; ++i) announcer.begin(i, 1);
  announcer.measure(1, bytes);
  announcer.begin(threads, 1);
  made = &result.next;
  const bool tiny = is_tiny(plan.traits(), execution, {bytes, std::chrono::nanoseconds(0)});
  const std::int64_t count = tiny ? kTinyChunk : 1;
  for (std::int64_t i = threads + 1; i < plan.size() && result.next.empty(); i += count)
    announcer.begin(i, std::min(count, plan.size() - i));
  return result;
}

std::uint64_t run(const Plan& plan, const ExecutionContext& execution) {
  const std::int64_t size = plan.size();
  if (size == 0 || !plan.traits().remote) return 0;
  const Announced single = sample_after(plan, 0, 1, kElements);
  const auto bytes = std::max<std::int64_t>(1, static_cast<std::int64_t>(single.bytes));
  const Beginning announced = beginning(plan, execution, bytes);
  const std::vector<Together>& first = announced.first;
  const Announced at_first = sample(plan, std::ssize(first), std::ssize(first),
                                    [&](std::int64_t i) { return first[static_cast<std::size_t>(i)]; });
  const std::int64_t begun = first.back().end;
  double requests = at_first.requests * static_cast<double>(begun);
  if (begun < size) {
    const std::int64_t together = announced.next.front().end - announced.next.front().begin;
    const Announced later = sample_after(plan, begun, together, kAnnouncements);
    requests += later.requests * static_cast<double>(size - begun);
  }
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

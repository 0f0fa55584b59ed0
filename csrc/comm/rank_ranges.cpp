// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/rank_ranges.h"

#include <algorithm>
#include <utility>

namespace torch_distinput {

RankRanges RankRanges::of(int rank) {
  RankRanges ranks;
  ranks.ranges_.push_back({rank, rank});
  return ranks;
}

void RankRanges::add(int rank) {
  if (ranges_.empty() || ranges_.back().first <= rank)
    append({rank, rank});
  else
    join(of(rank));
}

void RankRanges::join(const RankRanges& other) {
  RankRanges joined;
  auto mine = ranges_.begin();
  auto theirs = other.ranges_.begin();
  while (mine != ranges_.end() || theirs != other.ranges_.end()) {
    const bool takes_mine =
        theirs == other.ranges_.end() || (mine != ranges_.end() && mine->first <= theirs->first);
    joined.append(takes_mine ? *mine++ : *theirs++);
  }
  *this = std::move(joined);
}

void RankRanges::append(Range next) {
  // As a difference, because `last + 1` may overflow.
  if (ranges_.empty() || next.first - ranges_.back().last > 1)
    ranges_.push_back(next);
  else
    ranges_.back().last = std::max(ranges_.back().last, next.last);
}

std::size_t RankRanges::count() const noexcept {
  std::size_t ranks = 0;
  for (const auto& [first, last] : ranges_) ranks += static_cast<std::size_t>(last - first) + 1;
  return ranks;
}

std::vector<int> RankRanges::ranks() const {
  std::vector<int> all;
  for (const auto& [first, last] : ranges_)
    for (int rank = first; rank <= last; ++rank) all.push_back(rank);
  return all;
}

bool RankRanges::overlaps(const RankRanges& other) const noexcept {
  auto mine = ranges_.begin();
  auto theirs = other.ranges_.begin();
  while (mine != ranges_.end() && theirs != other.ranges_.end()) {
    if (mine->last < theirs->first)
      ++mine;
    else if (theirs->last < mine->first)
      ++theirs;
    else
      return true;
  }
  return false;
}

void RankRanges::encode(PeerTextWriter& text) const {
  text.integer(ranges_.size());
  for (const auto& [first, last] : ranges_) {
    text.integer(first);
    text.integer(last);
  }
}

RankRanges RankRanges::decode(PeerTextReader& text, int group) {
  RankRanges ranks;
  const std::size_t ranges = text.count("the number of ranges of ranks");
  int least = 0;  // below the last range lies at least one rank that is not in the set
  while (ranks.ranges_.size() < ranges) {
    const auto first = static_cast<int>(text.integer("the first rank of a range", least, group - 1));
    const auto last = static_cast<int>(text.integer("the last rank of a range", first, group - 1));
    ranks.ranges_.push_back({first, last});
    least = last < group - 1 ? last + 2 : group;
  }
  return ranks;
}

std::string RankRanges::str() const {
  std::vector<std::string> parts;
  for (const auto& [first, last] : ranges_) {
    const bool pair = last - first == 1;
    parts.push_back(std::to_string(first) + (first == last || pair ? "" : "-" + std::to_string(last)));
    if (pair) parts.push_back(std::to_string(last));
  }
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

std::string name_ranks(const RankRanges& ranks) {
  return (ranks.count() == 1 ? "rank " : "ranks ") + ranks.str();
}

}  // namespace torch_distinput

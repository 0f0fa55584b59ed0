// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/sampled.h"

#include <algorithm>
#include <cstddef>
#include <variant>

namespace torch_distinput {

State::List list_of(const std::vector<std::int64_t>& counts) { return {counts.begin(), counts.end()}; }

void add_counts(std::vector<std::int64_t>& sum, const std::vector<std::int64_t>& counts) {
  sum.resize(std::max(sum.size(), counts.size()));
  for (std::size_t i = 0; i < counts.size(); ++i) sum[i] += counts[i];
}

std::vector<std::int64_t> sampled_in(const State& state) {
  std::vector<std::int64_t> counts;
  if (const auto* map = std::get_if<State::Map>(&state.value())) {
    if (const auto own = map->find(kSampled); own != map->end()) {
      for (const State& count : own->second.as_list()) counts.push_back(count.as_int());
      return counts;
    }
    for (auto entry = map->begin(); entry != map->end() && counts.empty(); ++entry)
      counts = sampled_in(entry->second);
  } else if (const auto* list = std::get_if<State::List>(&state.value())) {
    for (auto entry = list->begin(); entry != list->end() && counts.empty(); ++entry)
      counts = sampled_in(*entry);
  }
  return counts;
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/part_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "kernels/rows.h"

namespace torch_distinput {

void PartPlan::gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
                      std::span<const RowSink> sinks) const {
  split(positions, slots, [&](const Plan& plan, auto part_positions, auto part_slots) {
    plan.gather(part_positions, part_slots, sinks);
  });
}

std::vector<Element> PartPlan::fetch(std::span<std::int64_t> positions) const {
  std::vector<Element> result(positions.size());
  split(positions, {}, [&](const Plan& plan, auto part_positions, auto slots) {
    std::vector<Element> elements = plan.fetch(part_positions);
    if (slots.empty()) {
      result = std::move(elements);
    } else {
      for (std::size_t i = 0; i < slots.size(); ++i) {
        result[static_cast<std::size_t>(slots[i])] = std::move(elements[i]);
      }
    }
  });
  return result;
}

std::string PartPlan::origin(std::int64_t position) const {
  const Place place = locate(position);
  return part(place.part)->origin(place.position);
}

void PartPlan::source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const {
  for (const std::int64_t position : positions) {
    Place place = locate(position);
    const auto before = std::ssize(rows);
    part(place.part)->source_rows({&place.position, 1}, rows);
    const std::int64_t first = first_source_row(place.part);
    for (auto row = rows.begin() + before; row != rows.end(); ++row) *row += first;
  }
}

void PartPlan::source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const {
  for (const Segment& segment : segments) {
    const Place place = locate(segment.element);
    const Segment own{place.position, segment.begin, segment.end};
    const auto before = std::ssize(rows);
    part(place.part)->source_rows_of({&own, 1}, rows);
    const std::int64_t first = first_source_row(place.part);
    for (auto row = rows.begin() + before; row != rows.end(); ++row) *row += first;
  }
}

std::int64_t PartPlan::rows(std::int64_t position) const {
  const Place place = locate(position);
  return part(place.part)->rows(place.position);
}

Element PartPlan::take_rows(std::span<const Segment> segments) const {
  std::vector<Element> pieces;
  split(segments, [&](const Plan& plan, auto run) { pieces.push_back(plan.take_rows(run)); });
  return concat_rows(pieces, "distribute_dataset");
}

void PartPlan::lengths(std::size_t leaf, std::span<std::int64_t> positions) const {
  std::vector<std::int64_t> result(positions.size());
  split(positions, {}, [&](const Plan& plan, auto part_positions, auto slots) {
    plan.lengths(leaf, part_positions);
    for (std::size_t i = 0; i < part_positions.size(); ++i)
      result[slots.empty() ? i : static_cast<std::size_t>(slots[i])] = part_positions[i];
  });
  std::copy(result.begin(), result.end(), positions.begin());
}

/// Each part gets all of its pieces at once, because a few of them are a read.
void PartPlan::gather_pieces(std::size_t leaf, c10::ScalarType dtype, std::span<const Segment> pieces,
                             std::span<char* const> to) const {
  std::map<std::int64_t, std::pair<std::vector<Segment>, std::vector<char*>>> parts;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Place place = locate(pieces[i].element);
    auto& [own, sinks] = parts[place.part];
    own.push_back({place.position, pieces[i].begin, pieces[i].end});
    sinks.push_back(to[i]);
  }
  for (const auto& [number, own] : parts) part(number)->gather_pieces(leaf, dtype, own.first, own.second);
}

std::vector<std::int64_t> PartPlan::sampled(std::int64_t position) const {
  const Place place = locate(std::max<std::int64_t>(position - 1, 0));
  return part(place.part)->sampled(position == 0 ? 0 : place.position + 1);
}

void PartPlan::will_read(std::span<std::int64_t> positions) const {
  split(positions, {}, [](const Plan& plan, auto part_positions, auto) { plan.will_read(part_positions); });
}

void PartPlan::will_take(std::span<const Segment> segments) const {
  split(segments, [](const Plan& plan, auto run) { plan.will_take(run); });
}

void PartPlan::split(std::span<const Segment> segments, const ForwardSegments& forward) const {
  std::vector<Segment> run;
  std::int64_t run_part = -1;
  const auto flush = [&] {
    if (!run.empty()) forward(*part(run_part), run);
    run.clear();
  };
  for (const Segment& segment : segments) {
    const Place place = locate(segment.element);
    if (place.part != run_part) flush();
    run_part = place.part;
    run.push_back({place.position, segment.begin, segment.end});
  }
  flush();
}

void PartPlan::split(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
                     const Forward& forward) const {
  if (positions.empty()) return;
  const auto [least, most] = std::minmax_element(positions.begin(), positions.end());
  const Place first = locate(*least);
  if (locate(*most).part != first.part) return split_by_place(positions, slots, forward);
  const std::int64_t begin = *least - first.position;
  for (std::int64_t& position : positions) position -= begin;
  forward(*part(first.part), positions, slots);
}

void PartPlan::split_by_place(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
                              const Forward& forward) const {
  std::vector<Place> places;
  places.reserve(positions.size());
  for (const std::int64_t position : positions) places.push_back(locate(position));
  std::vector<std::size_t> order(positions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return places[a].part < places[b].part; });
  std::vector<std::int64_t> part_slots;
  for (std::size_t begin = 0; begin < order.size();) {
    const std::int64_t here = places[order[begin]].part;
    part_slots.clear();
    std::size_t end = begin;
    for (; end < order.size() && places[order[end]].part == here; ++end) {
      const std::size_t from = order[end];
      positions[end] = places[from].position;
      part_slots.push_back(slots.empty() ? static_cast<std::int64_t>(from) : slots[from]);
    }
    forward(*part(here), positions.subspan(begin, end - begin), part_slots);
    begin = end;
  }
}

}  // namespace torch_distinput

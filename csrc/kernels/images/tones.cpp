// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/tones.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "kernels/images/tables.h"

namespace torch_distinput {
namespace {

/// How often each value occurs.
using Histogram = std::array<std::int64_t, 256>;

std::vector<Histogram> histograms_of(const Pixels& image) {
  std::vector<Histogram> counts(static_cast<std::size_t>(image.channels));
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* value = image.line(y);
    for (std::int64_t x = 0; x < image.width; ++x) {
      for (Histogram& histogram : counts) ++histogram[*value++];
    }
  }
  return counts;
}

/// Each channel by the table that its histogram gives.
Pixels by_histogram(const Pixels& image, Table (*table)(const Histogram&)) {
  std::vector<Table> tables;
  for (const Histogram& histogram : histograms_of(image)) tables.push_back(table(histogram));
  return looked_up(image, tables);
}

std::uint8_t same(int value) { return static_cast<std::uint8_t>(value); }

Table stretching(const Histogram& histogram) {
  int low = 0, high = 255;
  while (low < high && histogram[static_cast<std::size_t>(low)] == 0) ++low;
  while (high > low && histogram[static_cast<std::size_t>(high)] == 0) --high;
  if (low == high) return table_of(same);
  const double scale = 255.0 / (high - low);
  const double offset = -low * scale;
  return table_of([&](int value) {
    return static_cast<std::uint8_t>(std::clamp(static_cast<int>(value * scale + offset), 0, 255));
  });
}

/// A value becomes the share of all others that are lower, in steps as large as 1 / 255 of all but the
/// highest value's.
Table spreading(const Histogram& histogram) {
  std::int64_t all = 0, highest = 0;
  for (const std::int64_t count : histogram) {
    all += count;
    if (count > 0) highest = count;
  }
  const std::int64_t step = (all - highest) / 255;
  if (step == 0) return table_of(same);
  std::int64_t lower = step / 2;
  return table_of([&](int value) {
    const std::int64_t place = std::min<std::int64_t>(lower / step, 255);
    lower += histogram[static_cast<std::size_t>(value)];
    return static_cast<std::uint8_t>(place);
  });
}

}  // namespace

Pixels posterized(const Pixels& image, int bits) {
  const int kept = 0xFF << (8 - bits);
  return looked_up(image, table_of([&](int value) { return static_cast<std::uint8_t>(value & kept); }));
}

Pixels solarized(const Pixels& image, double threshold) {
  return looked_up(image, table_of([&](int value) {
                     const bool inverted = value >= threshold;
                     return static_cast<std::uint8_t>(inverted ? 255 - value : value);
                   }));
}

Pixels autocontrasted(const Pixels& image) { return by_histogram(image, stretching); }
Pixels equalized(const Pixels& image) { return by_histogram(image, spreading); }

}  // namespace torch_distinput

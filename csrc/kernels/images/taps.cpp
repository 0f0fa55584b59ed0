// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/taps.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace torch_distinput {
namespace {

constexpr int kMaxPrecision = 22;  // so that 255 times the sum fits in 32 bits

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

/// The cubic filter with a = -0.5, as in Pillow.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

double support_of(Interpolation interpolation) { return interpolation == Interpolation::kBicubic ? 2 : 1; }

/// Real weights of one pixel.
struct RealTaps {
  TapRange range;
  std::vector<double> weights;
};

RealTaps real_taps(const ResizedDim& dim, std::int64_t pixel, Interpolation interpolation, double width) {
  const double scale = (dim.to - dim.from) / static_cast<double>(dim.size);
  const double center = dim.from + (static_cast<double>(pixel) + 0.5) * scale;
  const double support = support_of(interpolation) * width;
  const auto bound = [&](double place) {
    return std::clamp(static_cast<std::int64_t>(std::floor(place + 0.5)), dim.lowest, dim.highest);
  };
  const std::int64_t first = std::min(bound(center - support), dim.highest - 1);
  const std::int64_t last = std::max(bound(center + support), first + 1);
  RealTaps taps{{first, last - first}, {}};
  double sum = 0;
  for (std::int64_t i = first; i < last; ++i) {
    const double x = (static_cast<double>(i) - center + 0.5) / width;
    taps.weights.push_back(interpolation == Interpolation::kBicubic ? cubic(x) : triangle(x));
    sum += taps.weights.back();
  }
  for (double& weight : taps.weights)
    weight = sum != 0 ? weight / sum : 1.0 / static_cast<double>(taps.range.count);
  return taps;
}

RealTaps nearest_tap(const ResizedDim& dim, std::int64_t pixel) {
  const double scale = (dim.to - dim.from) / static_cast<double>(dim.size);
  const double center = dim.from + (static_cast<double>(pixel) + 0.5) * scale;
  return {{std::clamp(static_cast<std::int64_t>(center), dim.lowest, dim.highest - 1), 1}, {1.0}};
}

/// The most bits that the weight `largest` leaves in 16.
int precision_for(double largest) {
  int precision = 0;
  while (precision < kMaxPrecision && std::ldexp(largest, precision + 1) + 0.5 < 32767) ++precision;
  return precision;
}

}  // namespace

std::int64_t Taps::begin() const {
  std::int64_t first = ranges.front().first;
  for (const TapRange& range : ranges) first = std::min(first, range.first);
  return first;
}

std::int64_t Taps::end() const {
  std::int64_t last = 0;
  for (const TapRange& range : ranges) last = std::max(last, range.first + range.count);
  return last;
}

Taps make_taps(const ResizedDim& dim, std::int64_t begin, std::int64_t count, Interpolation interpolation,
               bool antialias) {
  const double scale = (dim.to - dim.from) / static_cast<double>(dim.size);
  const double width = antialias ? std::max(1.0, scale) : 1.0;
  std::vector<RealTaps> all;
  all.reserve(static_cast<std::size_t>(count));
  std::int64_t most = 1;
  double largest = 0;
  // Weights are rounded alike, whatever part of the line is wanted.
  for (std::int64_t pixel = 0; pixel < dim.size; ++pixel) {
    RealTaps one = interpolation == Interpolation::kNearest ? nearest_tap(dim, pixel)
                                                            : real_taps(dim, pixel, interpolation, width);
    for (const double weight : one.weights) largest = std::max(largest, std::abs(weight));
    if (pixel < begin || pixel >= begin + count) continue;
    most = std::max(most, one.range.count);
    all.push_back(std::move(one));
  }
  Taps taps;
  taps.precision = precision_for(largest);
  taps.stride = (most + 3) / 4 * 4;
  taps.weights.resize(static_cast<std::size_t>(count * taps.stride), 0);
  std::int16_t* weights = taps.weights.data();
  for (const RealTaps& one : all) {
    taps.ranges.push_back(one.range);
    for (std::size_t i = 0; i < one.weights.size(); ++i)
      weights[i] = static_cast<std::int16_t>(std::lround(std::ldexp(one.weights[i], taps.precision)));
    weights += taps.stride;
  }
  return taps;
}

}  // namespace torch_distinput

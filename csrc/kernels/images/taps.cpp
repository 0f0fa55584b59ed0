// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/taps.h"

#include <algorithm>
#include <cmath>

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

/// The real weights of one dim.
class Filter {
 public:
  explicit Filter(const ResizedDim& dim)
      : dim_(dim),
        scale_((dim.to - dim.from) / static_cast<double>(dim.size)),
        inverse_width_(1 / width(dim, scale_)),
        support_((dim.interpolation == Interpolation::kBicubic ? 2 : 1) * width(dim, scale_)) {
    if (dim.interpolation == Interpolation::kNearest) add_centers();
  }

  /// The most pixels that one sum may need.
  std::int64_t most() const {
    if (dim_.interpolation == Interpolation::kNearest) return 1;
    return static_cast<std::int64_t>(std::ceil(2 * support_)) + 1;
  }

  TapRange range(std::int64_t pixel) const {
    if (dim_.interpolation == Interpolation::kNearest) return {nearest_[static_cast<std::size_t>(pixel)], 1};
    const double center = this->center(pixel);
    const auto bound = [&](double place) {  // rounds towards 0, as Pillow; `lowest` is not negative
      return std::clamp(static_cast<std::int64_t>(place), dim_.lowest, dim_.highest);
    };
    const std::int64_t first = std::min(bound(center - support_ + 0.5), dim_.highest - 1);
    const std::int64_t last = std::max(bound(center + support_ + 0.5), first + 1);
    return {first, last - first};
  }

  /// Writes the weights of `range`, which is that of `pixel`.
  void weights(std::int64_t pixel, const TapRange& range, double* to) const {
    if (dim_.interpolation == Interpolation::kNearest) {
      *to = 1;
      return;
    }
    const double center = this->center(pixel);
    double sum = 0;
    for (std::int64_t i = 0; i < range.count; ++i) {
      const double x = (static_cast<double>(range.first + i) - center + 0.5) * inverse_width_;
      to[i] = dim_.interpolation == Interpolation::kBicubic ? cubic(x) : triangle(x);
      sum += to[i];
    }
    const double count = static_cast<double>(range.count);
    for (std::int64_t i = 0; i < range.count; ++i) to[i] = sum != 0 ? to[i] / sum : 1 / count;
  }

 private:
  static double width(const ResizedDim& dim, double scale) {
    return dim.antialias ? std::max(1.0, scale) : 1.0;
  }

  /// Centers are added up, because Pillow does so: where one lies between two pixels, the rounding of these
  /// sums decides which is the nearest.
  void add_centers() {
    nearest_.reserve(static_cast<std::size_t>(dim_.size));
    double center = dim_.from + scale_ * 0.5;
    for (std::int64_t pixel = 0; pixel < dim_.size; ++pixel, center += scale_)
      nearest_.push_back(std::clamp(static_cast<std::int64_t>(center), dim_.lowest, dim_.highest - 1));
  }
  double center(std::int64_t pixel) const { return dim_.from + (static_cast<double>(pixel) + 0.5) * scale_; }

  const ResizedDim& dim_;
  double scale_;
  double inverse_width_;  ///< Pillow multiplies by it
  double support_;
  std::vector<std::int64_t> nearest_;  ///< the one pixel of each sum, for kNearest
};

/// The most bits that the weight `largest` leaves in 16.
int precision_for(double largest) {
  int precision = 0;
  while (precision < kMaxPrecision && std::ldexp(largest, precision + 1) + 0.5 < 32767) ++precision;
  return precision;
}

double largest_weight(const Filter& filter, std::int64_t size, std::vector<double>& scratch) {
  double largest = 0;
  for (std::int64_t pixel = 0; pixel < size; ++pixel) {
    const TapRange range = filter.range(pixel);
    filter.weights(pixel, range, scratch.data());
    for (std::int64_t i = 0; i < range.count; ++i)
      largest = std::max(largest, std::abs(scratch[static_cast<std::size_t>(i)]));
  }
  return largest;
}

void add_range(const TapRange& range, Taps& taps) {
  taps.ranges.push_back(range);
  taps.most = std::max(taps.most, range.count);
}

Taps room_for(std::int64_t count, std::int64_t most, int precision) {
  Taps taps;
  taps.precision = precision;
  taps.stride = (most + 3) / 4 * 4;
  taps.ranges.reserve(static_cast<std::size_t>(count));
  taps.weights.resize(static_cast<std::size_t>(count * taps.stride), 0);
  return taps;
}

void store_few(const double* real, std::int64_t count, std::int16_t* to) {
  constexpr double kUnit = 1 << kFewTapsPrecision;
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<std::int16_t>(std::min(real[i] * kUnit + 0.5, kUnit - 1));
}

}  // namespace

TapRange ResizedDim::needed(std::int64_t begin, std::int64_t count) const {
  const Filter filter(*this);
  const std::int64_t first = filter.range(begin).first;
  return {first, filter.range(begin + count - 1).end() - first};
}

Taps make_taps(const ResizedDim& dim, std::int64_t begin, std::int64_t count) {
  const Filter filter(dim);
  std::vector<double> real(static_cast<std::size_t>(filter.most()));
  Taps taps = room_for(count, filter.most(), precision_for(largest_weight(filter, dim.size, real)));
  const double unit = std::ldexp(1.0, taps.precision);
  std::int16_t* weights = taps.weights.data();
  for (std::int64_t pixel = begin; pixel < begin + count; ++pixel, weights += taps.stride) {
    add_range(filter.range(pixel), taps);
    filter.weights(pixel, taps.ranges.back(), real.data());
    for (std::int64_t i = 0; i < taps.ranges.back().count; ++i)
      weights[i] = static_cast<std::int16_t>(std::lround(real[static_cast<std::size_t>(i)] * unit));
  }
  return taps;
}

Taps make_few_taps(const ResizedDim& dim, std::int64_t begin, std::int64_t count) {
  const Filter filter(dim);
  std::vector<double> real(static_cast<std::size_t>(filter.most()));
  Taps taps = room_for(count, filter.most(), kFewTapsPrecision);
  std::int16_t* weights = taps.weights.data();
  for (std::int64_t pixel = begin; pixel < begin + count; ++pixel, weights += taps.stride) {
    add_range(filter.range(pixel), taps);
    filter.weights(pixel, taps.ranges.back(), real.data());
    store_few(real.data(), taps.ranges.back().count, weights);
  }
  return taps;
}

}  // namespace torch_distinput

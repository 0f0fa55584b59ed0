// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iterator>
#include <sstream>

#include <c10/util/Exception.h>

#include "ops/images/choose_leaf.h"
#include "ops/images/image_steps.h"

namespace torch_distinput {
namespace {

const char* text(bool value) { return value ? "True" : "False"; }

const char* text(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kNearest:
      return "nearest";
    case Interpolation::kBilinear:
      return "bilinear";
    case Interpolation::kBicubic:
      return "bicubic";
  }
  return "?";
}

const char* text(PaddingMode mode) {
  switch (mode) {
    case PaddingMode::kConstant:
      return "constant";
    case PaddingMode::kEdge:
      return "edge";
    case PaddingMode::kReflect:
      return "reflect";
    case PaddingMode::kSymmetric:
      return "symmetric";
  }
  return "?";
}

const char* text(BoxFormat format) {
  switch (format) {
    case BoxFormat::kXyxy:
      return "XYXY";
    case BoxFormat::kXywh:
      return "XYWH";
    case BoxFormat::kCxcywh:
      return "CXCYWH";
  }
  return "?";
}

template <class Numbers>
std::string list_of(const Numbers& numbers) {
  std::ostringstream out;
  const char* separator = "[";
  for (const auto& number : numbers) {
    out << separator << number;
    separator = ", ";
  }
  return numbers.empty() ? "[]" : out.str() + "]";
}

std::string list_of(const ColorJitter::Interval& interval) { return interval ? list_of(*interval) : "None"; }

std::string list_of(const std::vector<ImageKey>& keys) {
  std::vector<std::string> texts;
  texts.reserve(keys.size());
  for (const ImageKey& key : keys) texts.push_back(describe_key(key));
  return list_of(texts);
}

struct Describe {
  std::ostringstream& out;

  void operator()(const DecodeImage& step) const {
    out << "layout=" << (step.layout == ImageLayout::kNchw ? "NCHW" : "NHWC")
        << ", max_pixels=" << step.max_pixels;
    if (step.reducing_gap == kDefaultReducingGap) return;
    out << ", reducing_gap=";
    if (step.reducing_gap)
      out << *step.reducing_gap;
    else
      out << "None";
  }
  void operator()(const Resize& step) const {
    out << "size=" << list_of(step.size) << ", interpolation=" << text(step.interpolation)
        << ", antialias=" << text(step.antialias);
  }
  void operator()(const CenterCrop& step) const { out << "size=" << list_of(step.size); }
  void operator()(const Pad& step) const {
    out << "padding=" << list_of(step.padding) << ", fill=" << step.fill
        << ", padding_mode=" << text(step.padding_mode);
  }
  void operator()(const RandomCrop& step) const {
    out << "size=" << list_of(step.size) << ", padding=" << list_of(step.padding)
        << ", pad_if_needed=" << text(step.pad_if_needed) << ", fill=" << step.fill
        << ", padding_mode=" << text(step.padding_mode);
  }
  void operator()(const RandomResizedCrop& step) const {
    out << "size=" << list_of(step.size) << ", scale=" << list_of(step.scale)
        << ", ratio=" << list_of(step.ratio) << ", interpolation=" << text(step.interpolation)
        << ", antialias=" << text(step.antialias);
  }
  void operator()(const HorizontalFlip& step) const { out << "p=" << step.p; }
  void operator()(const VerticalFlip& step) const { out << "p=" << step.p; }
  void operator()(const Rotate90& step) const {
    out << "k=" << (step.k ? std::to_string(*step.k) : std::string("None"));
  }
  void operator()(const ColorJitter& step) const {
    out << "brightness=" << list_of(step.brightness) << ", contrast=" << list_of(step.contrast)
        << ", saturation=" << list_of(step.saturation) << ", hue=" << list_of(step.hue);
  }
  void operator()(const RandAugment& step) const {
    out << "num_ops=" << step.num_ops << ", magnitude=" << step.magnitude
        << ", num_magnitude_bins=" << step.num_magnitude_bins;
  }
  void operator()(const ImageTargets& step) const {
    out << "masks=" << list_of(step.masks) << ", boxes=" << list_of(step.boxes)
        << ", box_format=" << text(step.box_format);
  }
};

void check_sizes(const char* op, const char* parameter, const std::vector<std::int64_t>& sizes,
                 std::int64_t lowest) {
  constexpr std::int64_t kHighest = 1 << 20;
  for (const std::int64_t size : sizes)
    TORCH_CHECK_VALUE(size >= lowest && size <= kHighest, op, ": `", parameter, "` must be in [", lowest,
                      ", ", kHighest, "], but is ", size, ".");
}

void check_size(const char* op, const std::vector<std::int64_t>& size) {
  TORCH_CHECK_VALUE(size.size() == 1 || size.size() == 2, op,
                    ": `size` must be one number, or height and width, but has ", size.size(), " entries.");
  check_sizes(op, "size", size, 1);
}

void check_padding(const char* op, const std::vector<std::int64_t>& padding, std::int64_t fill) {
  const std::size_t count = padding.size();
  TORCH_CHECK_VALUE(count == 1 || count == 2 || count == 4, op,
                    ": `padding` must have 1, 2 or 4 entries, but has ", count, ".");
  check_sizes(op, "padding", padding, 0);
  TORCH_CHECK_VALUE(fill >= 0 && fill <= 255, op, ": `fill` must be in [0, 255], but is ", fill, ".");
}

void check_probability(const char* op, double p) {
  TORCH_CHECK_VALUE(p >= 0 && p <= 1, op, ": `p` must be in [0, 1], but is ", p, ".");
}

void check_filter(const char* op, Interpolation interpolation, bool antialias) {
  TORCH_CHECK_VALUE(antialias || interpolation != Interpolation::kBicubic, op,
                    ": `antialias` must be True for `interpolation` \"bicubic\".");
}

void check_interval(const char* op, const char* parameter, double low, double high, double lowest,
                    double highest) {
  TORCH_CHECK_VALUE(std::isfinite(high) && lowest <= low && low <= high && high <= highest, op, ": `",
                    parameter, "` must be an increasing pair of numbers in [", lowest, ", ", highest,
                    "], but is [", low, ", ", high, "].");
}

struct Check {
  const char* op;

  void operator()(const DecodeImage& step) const {
    TORCH_CHECK_VALUE(step.max_pixels >= 1, op, ": `max_pixels` must be at least 1, but is ", step.max_pixels,
                      ".");
    const double gap = step.reducing_gap.value_or(1);
    TORCH_CHECK_VALUE(gap >= 1 && std::isfinite(gap), op, ": `reducing_gap` must be at least 1, but is ", gap,
                      ".");
  }
  void operator()(const Resize& step) const {
    check_size(op, step.size);
    check_filter(op, step.interpolation, step.antialias);
  }
  void operator()(const CenterCrop& step) const { check_size(op, step.size); }
  void operator()(const Pad& step) const { check_padding(op, step.padding, step.fill); }
  void operator()(const RandomCrop& step) const {
    check_size(op, step.size);
    check_padding(op, step.padding.empty() ? std::vector<std::int64_t>{0} : step.padding, step.fill);
  }
  void operator()(const RandomResizedCrop& step) const {
    constexpr double kSmallest = 1e-6;
    check_size(op, step.size);
    check_filter(op, step.interpolation, step.antialias);
    check_interval(op, "scale", step.scale[0], step.scale[1], kSmallest, 1);
    check_interval(op, "ratio", step.ratio[0], step.ratio[1], kSmallest, 1 / kSmallest);
  }
  void operator()(const HorizontalFlip& step) const { check_probability(op, step.p); }
  void operator()(const VerticalFlip& step) const { check_probability(op, step.p); }
  void operator()(const Rotate90&) const {}
  void operator()(const ColorJitter& step) const {
    constexpr double kMaxFactor = 1e6;
    const auto check = [this](const char* name, const ColorJitter::Interval& interval, double lowest,
                              double highest) {
      if (interval) check_interval(op, name, (*interval)[0], (*interval)[1], lowest, highest);
    };
    check("brightness", step.brightness, 0, kMaxFactor);
    check("contrast", step.contrast, 0, kMaxFactor);
    check("saturation", step.saturation, 0, kMaxFactor);
    check("hue", step.hue, -0.5, 0.5);
  }
  void operator()(const RandAugment& step) const {
    check_count("num_ops", step.num_ops, 0, 64);
    check_count("num_magnitude_bins", step.num_magnitude_bins, 2, 1024);
    check_count("magnitude", step.magnitude, 0, step.num_magnitude_bins - 1);
  }
  void check_count(const char* parameter, std::int64_t count, std::int64_t lowest,
                   std::int64_t highest) const {
    TORCH_CHECK_VALUE(count >= lowest && count <= highest, op, ": `", parameter, "` must be in [", lowest,
                      ", ", highest, "], but is ", count, ".");
  }
  void operator()(const ImageTargets&) const {}  // `find_targets` checks it against the elements
};

}  // namespace

const char* step_name(const ImageStep& step) {
  constexpr const char* kNames[] = {"decode_image",    "resize",
                                    "center_crop",     "pad",
                                    "random_crop",     "random_resized_crop",
                                    "horizontal_flip", "vertical_flip",
                                    "rotate90",        "color_jitter",
                                    "rand_augment",    "with_image_targets"};
  static_assert(std::size(kNames) == std::variant_size_v<ImageStep>);
  return kNames[step.index()];
}

std::string describe_step(const ImageStep& step) {
  std::ostringstream out;
  out << step_name(step) << '(';
  std::visit(Describe{out}, step);
  out << ')';
  return out.str();
}

void check_step(const ImageStep& step) { std::visit(Check{step_name(step)}, step); }

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstddef>

#include "ops/images/image_steps.h"

namespace torch_distinput {
namespace {

/// The changes, magnitudes and order of torchvision.transforms.v2.RandAugment.
class Augmentations {
 public:
  Augmentations(const RandAugment& step, Extent extent, RowDraws& draws, std::vector<Edit>& edits)
      : step_(step), extent_(extent), draws_(draws), edits_(edits) {}

  void add_one() {
    const auto number = static_cast<std::size_t>(draws_.below(std::ssize(kAll)));
    (this->*kAll[number])();
  }

 private:
  using Add = void (Augmentations::*)();

  void nothing() {}
  void shear_x() { map(shear_across(signed_part(kShear))); }
  void shear_y() { map(shear_down(signed_part(kShear))); }
  void translate_x() { map(shift(std::trunc(signed_part(kShift * static_cast<double>(extent_.width))), 0)); }
  void translate_y() { map(shift(0, std::trunc(signed_part(kShift * static_cast<double>(extent_.height))))); }
  void rotate() { map(rotation(signed_part(kDegrees), extent_)); }
  void brightness() { enhance(ColourChange::kBrightness); }
  void saturation() { enhance(ColourChange::kSaturation); }
  void contrast() { enhance(ColourChange::kContrast); }
  void sharpness() { enhance(ColourChange::kSharpness); }
  void posterize() {
    const auto bins = static_cast<float>(step_.num_magnitude_bins - 1);
    change(ColourChange::kPosterize,
           std::nearbyint(8.0F - static_cast<float>(step_.magnitude) / (bins / 4.0F)));
  }
  void solarize() { change(ColourChange::kSolarize, 255 * double{part(1, 0)}); }
  void autocontrast() { change(ColourChange::kAutocontrast, 0); }
  void equalize() { change(ColourChange::kEqualize, 0); }

  static constexpr double kShear = 0.3, kShift = 150.0 / 331.0, kDegrees = 30, kEnhancement = 0.9;
  static constexpr std::array<Add, 14> kAll{
      &Augmentations::nothing,      &Augmentations::shear_x,     &Augmentations::shear_y,
      &Augmentations::translate_x,  &Augmentations::translate_y, &Augmentations::rotate,
      &Augmentations::brightness,   &Augmentations::saturation,  &Augmentations::contrast,
      &Augmentations::sharpness,    &Augmentations::posterize,   &Augmentations::solarize,
      &Augmentations::autocontrast, &Augmentations::equalize};

  /// As far from `first` to `last` as the magnitude says, as torch's `linspace` of float32.
  float part(float first, float last) const {
    const std::int64_t steps = step_.num_magnitude_bins - 1;
    const float width = (last - first) / static_cast<float>(steps);
    if (step_.magnitude < step_.num_magnitude_bins / 2)
      return std::fma(width, static_cast<float>(step_.magnitude), first);
    return std::fma(-width, static_cast<float>(steps - step_.magnitude), last);
  }
  double signed_part(double most) {
    const double magnitude = part(0, static_cast<float>(most));
    return draws_.uniform(0, 1) < 0.5 ? -magnitude : magnitude;
  }

  void map(const AffineMap& map) { edits_.emplace_back(AffineEdit{map}); }
  void change(ColourChange change, double factor) { edits_.emplace_back(ColourEdit{change, factor}); }
  void enhance(ColourChange change) { this->change(change, 1 + signed_part(kEnhancement)); }

  const RandAugment& step_;
  Extent extent_;
  RowDraws& draws_;
  std::vector<Edit>& edits_;
};

}  // namespace

void draw_augmentations(const RandAugment& step, Extent extent, RowDraws& draws, std::vector<Edit>& edits) {
  Augmentations augmentations(step, extent, draws, edits);
  for (std::int64_t i = 0; i < step.num_ops; ++i) augmentations.add_one();
}

}  // namespace torch_distinput

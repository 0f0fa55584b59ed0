// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/edit.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/images/images_testing.h"
#include "kernels/images/planes.h"
#include "kernels/images/resample.h"
#include "kernels/images/resample_blocks.h"

namespace torch_distinput {
namespace {

using namespace images_testing;

Pixels edited_pixels(const Pixels& pixels, std::vector<Edit> edits) {
  ImageSource source;
  source.pixels = pixels;
  return edited(source, std::move(edits));
}

/// A random edit that suits an image of `extent`.
Edit random_edit(Extent extent, std::mt19937_64& random) {
  const auto below = [&](std::int64_t count) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
  };
  switch (below(7)) {
    case 0: {
      const Box box{below(extent.width), below(extent.height), 0, 0};
      return CropEdit{
          {box.left, box.top, 1 + below(extent.width - box.left), 1 + below(extent.height - box.top)}};
    }
    case 1:
      return ResizeEdit{{1 + below(30), 1 + below(30)},
                        below(2) == 0 ? Interpolation::kBilinear : Interpolation::kBicubic,
                        true};
    case 2:
      return FlipEdit{below(2) == 0};
    case 3:
      return TurnEdit{static_cast<int>(1 + below(3))};
    case 4:
      return PadEdit{below(5), below(5), below(5),
                     below(5), 9,        below(2) == 0 ? PaddingMode::kConstant : PaddingMode::kEdge};
    case 5:
      return AffineEdit{below(2) == 0 ? rotation(20, extent) : shear_across(0.3)};
    default: {
      constexpr auto kChanges =
          std::to_array<std::pair<ColourChange, double>>({{ColourChange::kBrightness, 0.7},
                                                          {ColourChange::kContrast, 0.7},
                                                          {ColourChange::kSharpness, 1.6},
                                                          {ColourChange::kPosterize, 5},
                                                          {ColourChange::kSolarize, 140},
                                                          {ColourChange::kAutocontrast, 0},
                                                          {ColourChange::kEqualize, 0}});
      const auto& [change, factor] = kChanges[static_cast<std::size_t>(below(std::ssize(kChanges)))];
      return ColourEdit{change, factor};
    }
  }
}

TEST(Edit, AChainIsAsItsEditsOneByOne) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 800; ++i) {
    const Pixels image =
        noise({1 + static_cast<std::int64_t>(random() % 40), 1 + static_cast<std::int64_t>(random() % 40)}, 3,
              random());
    std::vector<Edit> edits;
    Pixels expected = image;
    for (std::uint64_t count = random() % 6; count > 0; --count) {
      edits.push_back(random_edit(expected.extent(), random));
      expected = edited_pixels(expected, {edits.back()});
    }
    EXPECT_TRUE(equal(edited_pixels(image, edits), expected)) << i;
  }
}

TEST(Edit, AMaskTakesTheNearestPixelsAndIsPaddedWithZero) {
  const std::vector<Edit> edits = {
      ResizeEdit{{7, 5}, Interpolation::kBicubic, true},
      PadEdit{1, 0, 0, 0, 200, PaddingMode::kConstant},
      ColourEdit{ColourChange::kContrast, 0.3},
      FlipEdit{true},
  };
  const Pixels mask = noise({14, 15}, 1, 5);
  const Pixels changed = edited_pixels(mask, mask_edits(edits));
  ASSERT_EQ(changed.extent(), (Extent{8, 5}));
  for (std::int64_t y = 0; y < 5; ++y) {
    for (std::int64_t x = 0; x < 7; ++x)
      EXPECT_EQ(changed.line(y)[6 - x], mask.line(y * 3 + 1)[x * 2 + 1]) << x << ' ' << y;
    EXPECT_EQ(changed.line(y)[7], 0);
  }
}

/// Both dims of a resize of `image` to a random size.
std::pair<ResizedDim, ResizedDim> random_dims(const Pixels& image, Interpolation interpolation,
                                              bool antialias, std::mt19937_64& random) {
  const auto dim = [&](std::int64_t from) {
    const auto to = 1 + static_cast<std::int64_t>(random() % 70);
    return ResizedDim{0, static_cast<double>(from), 0, from, to, interpolation, antialias};
  };
  const ResizedDim across = dim(image.width);
  return {across, dim(image.height)};
}

Pixels random_image(int number, std::mt19937_64& random) {
  const auto size = [&] { return 1 + static_cast<std::int64_t>(random() % 70); };
  const Extent extent{size(), size()};
  return noise(extent, std::array{3, 1, 3, 4}[static_cast<std::size_t>(number % 4)], random());
}

TEST(Resample, IsTheSameOnEveryProcessor) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100; ++i) {
    const Pixels image = random_image(i, random);
    const Interpolation interpolation = i % 2 == 0 ? Interpolation::kBilinear : Interpolation::kBicubic;
    const auto [across_dim, down_dim] = random_dims(image, interpolation, i % 3 != 0, random);
    const Taps across = make_taps(across_dim, 0, across_dim.size);
    const Taps down = make_taps(down_dim, 0, down_dim.size);
    EXPECT_TRUE(equal(resample(image, 0, 0, across, down),
                      resample(image, 0, 0, across, down, FirstPass::kLines, Instructions::kPortable)));
    const Pixels columns_first = resample(image, 0, 0, across, down, FirstPass::kColumns);
    EXPECT_TRUE(equal(columns_first,
                      resample(image, 0, 0, across, down, FirstPass::kColumns, Instructions::kPortable)));
    if (interpolation == Interpolation::kBilinear) {
      EXPECT_LE(largest_difference(columns_first, resample(image, 0, 0, across, down)), 1);
    }
  }
}

/// The middle of 5 pixels lies between pixels 6 and 7 of 14.
TEST(Resample, TheNearestPixelIsPillowsWhereTwoAreNear) {
  const ResizedDim dim{0, 14, 0, 14, 5, Interpolation::kNearest, false};
  for (const std::int64_t begin : {0, 2}) {
    const Taps taps = make_taps(dim, begin, 3);
    for (std::int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(taps.ranges[static_cast<std::size_t>(i)].first,
                (std::array{1, 4, 6, 9, 12}[static_cast<std::size_t>(begin + i)]));
  }
  EXPECT_EQ(dim.needed(2, 1).first, 6);
}

/// Sums along lines first would have 2^40 pixels in between.
TEST(Resample, HighImagesBecomeWide) {
  constexpr std::int64_t kMax = 1 << 20;
  for (const Interpolation interpolation : {Interpolation::kNearest, Interpolation::kBilinear}) {
    const Pixels high = make_pixels({1, kMax}, 1);
    for (std::int64_t y = 0; y < kMax; ++y) *high.line(y) = 77;
    const ResizeEdit resize{{kMax, 1}, interpolation, interpolation != Interpolation::kNearest};
    const Pixels wide = edited_pixels(high, {resize});
    ASSERT_EQ(wide.extent(), (Extent{kMax, 1}));
    EXPECT_EQ(wide.line(0)[0], interpolation == Interpolation::kNearest ? 77 : wide.line(0)[kMax - 1]);
  }
}

Pixels in_blocks(const Pixels& image, const Taps& across, const Taps& down,
                 Instructions instructions = Instructions::kAny) {
  LoadedLines lines(image);
  return resample_blocks(lines, 0, 0, across, down, instructions);
}

TEST(ResampleBlocks, IsTheSameOnEveryProcessorAndTheExactSumUpToOneLevel) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    const Pixels image = random_image(i, random);
    const auto [across_dim, down_dim] = random_dims(image, Interpolation::kBilinear, i % 3 != 0, random);
    if (!suits_blocks(across_dim, down_dim)) continue;
    const Taps across = make_few_taps(across_dim, 0, across_dim.size);
    const Taps down = make_few_taps(down_dim, 0, down_dim.size);
    const Pixels blocks = in_blocks(image, across, down);
    EXPECT_TRUE(equal(blocks, in_blocks(image, across, down, Instructions::kPortable))) << i;
    const Pixels exact = resample(image, 0, 0, make_taps(across_dim, 0, across_dim.size),
                                  make_taps(down_dim, 0, down_dim.size));
    EXPECT_LE(largest_difference(blocks, exact), 1) << i;
  }
}

TEST(ResampleBlocks, KeepsOneColour) {
  std::mt19937_64 random(4);
  for (int value = 0; value < 256; ++value) {
    const auto filled = [&](Extent extent) {
      const Pixels pixels = make_pixels(extent, 3);
      std::fill_n(pixels.data, pixels.stride * pixels.height, static_cast<std::uint8_t>(value));
      return pixels;
    };
    const Pixels image = filled({69, 61});
    const auto [across, down] = random_dims(image, Interpolation::kBilinear, true, random);
    if (!suits_blocks(across, down)) continue;
    const Pixels blocks =
        in_blocks(image, make_few_taps(across, 0, across.size), make_few_taps(down, 0, down.size));
    EXPECT_TRUE(equal(blocks, filled({across.size, down.size}))) << value;
  }
}

TEST(Planes, ComeBackFromBothLayouts) {
  for (const std::int64_t channels : {1, 3, 4}) {
    const Pixels image = noise({37, 5}, channels, 3);
    for (const ImageLayout layout : {ImageLayout::kNchw, ImageLayout::kNhwc}) {
      std::vector<std::uint8_t> tensor(static_cast<std::size_t>(37 * 5 * channels));
      store_pixels(image, layout, tensor.data());
      EXPECT_TRUE(equal(load_pixels(tensor.data(), layout, channels, image.extent()), image));
    }
  }
}

}  // namespace
}  // namespace torch_distinput

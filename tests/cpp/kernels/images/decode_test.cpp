// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/decode.h"

#include <random>

#include <gtest/gtest.h>

#include "io/sample_files.h"
#include "kernels/images/edit.h"
#include "kernels/images/images_testing.h"
#include "kernels/images/sample_images.h"

namespace torch_distinput {
namespace {

using namespace images_testing;

constexpr Extent kExtent{37, 19};

class Decode : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      check_decoders();
    } catch (const ImageError&) {
      GTEST_SKIP() << "this build has no decoders";
    }
  }
};

/// All pixels of `region`; otherwise as `open_image`.
Pixels decode_region(std::string_view encoded, const ImageHead& head, const Box& region, int denominator,
                     Samples samples = Samples::kRgb) {
  return open_image(encoded, head, region, denominator, samples)->read(0, region.height);
}

Pixels decoded(const std::string& image, const Box& region = whole(kExtent), int denominator = 1) {
  return decode_region(image, read_head(image, kDefaultMaxPixels), region, denominator);
}

TEST_F(Decode, EachRegionIsThatOfTheWholeImage) {
  for (const std::string& image : {kJpeg, kProgressiveJpeg, kPng, kWebp}) {
    const Pixels all = decoded(image);
    ASSERT_EQ(all.extent(), kExtent);
    for (std::int64_t left = 0; left < kExtent.width; left += 3) {
      for (std::int64_t top = 0; top < kExtent.height; top += 2) {
        for (const std::int64_t side : {1, 9, 40}) {
          const Box region{left, top, std::min(side, kExtent.width - left),
                           std::min(side, kExtent.height - top)};
          EXPECT_TRUE(equal(decoded(image, region), all.part(region))) << left << ' ' << top << ' ' << side;
        }
      }
    }
  }
}

TEST_F(Decode, LinesAreTheSameHoweverManyAreReadAtOnce) {
  std::mt19937_64 random(5);
  const auto draw = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  const Box region{4, 1, 30, 17};
  for (const std::string& image : {kJpeg, kProgressiveJpeg, kPng, kWebp}) {
    const Pixels all = decoded(image, region);
    for (int run = 0; run < 100; ++run) {
      const auto lines = open_image(image, read_head(image, kDefaultMaxPixels), region, 1);
      for (std::int64_t first = draw(5); first < region.height; first += draw(6)) {
        const std::int64_t count = 1 + draw(region.height - first - 1);
        EXPECT_TRUE(equal(lines->read(first, count), all.part({0, first, region.width, count})));
      }
    }
  }
}

TEST_F(Decode, AJpegCanBeSmaller) {
  EXPECT_EQ(decoded(kJpeg, {0, 0, 10, 5}, 4).extent(), (Extent{10, 5}));
  EXPECT_TRUE(equal(decoded(kJpeg, {3, 2, 4, 2}, 4), decoded(kJpeg, {0, 0, 10, 5}, 4).part({3, 2, 4, 2})));
}

TEST_F(Decode, AMaskIsGreyOrTheIndicesOfAPalette) {
  const auto mask = [](const std::string& image) {
    return decode_region(image, read_head(image, kDefaultMaxPixels), {1, 1, 3, 2}, 1, Samples::kMask);
  };
  const Pixels part = mask(kPaletteMask);
  ASSERT_EQ(part.channels, 1);
  ASSERT_EQ(part.extent(), (Extent{3, 2}));
  for (std::int64_t y = 0; y < 2; ++y) {
    for (std::int64_t x = 0; x < 3; ++x) EXPECT_EQ(part.line(y)[x], ((y + 1) * 5 + x + 1) % 4);
  }
  EXPECT_THROW(mask(kJpeg), ImageError);
  EXPECT_THROW(mask(kWebp), ImageError);
}

TEST_F(Decode, SaysWhatIsWrong) {
  const auto error = [](const std::string& image, std::int64_t max_pixels = 1000) {
    try {
      decode_region(image, read_head(image, max_pixels), whole(kExtent), 1);
    } catch (const ImageError& found) {
      return std::string(found.what());
    }
    return std::string();
  };
  EXPECT_EQ(error(""), "the image is empty");
  EXPECT_EQ(error("GIF89a"), "the image is not JPEG, PNG or WebP");
  EXPECT_EQ(error(kJpeg.substr(0, kJpeg.size() - 40)), "JPEG: the data is truncated");
  EXPECT_EQ(error(kProgressiveJpeg.substr(0, kProgressiveJpeg.size() - 40)), "JPEG: the data is truncated");
  EXPECT_EQ(error(kPng.substr(0, 200)), "PNG: the data is truncated");
  EXPECT_EQ(error(kWebp.substr(0, kWebp.size() / 2)), "WebP: the data is damaged or truncated");
  EXPECT_EQ(error(kPng, 700),
            "the image has 37 x 19 pixels, more than `max_pixels`=700 (it could be a decompression bomb)");
  EXPECT_EQ(error(kJpeg.substr(0, kJpeg.size() - 2)), "") << "only the mark of the end is missing";
}

/// Any bytes are decoded, or are an error.
TEST_F(Decode, DamagedImages) {
  constexpr std::int64_t kMaxPixels = 20'000;
  std::mt19937_64 random(7);
  int read = 0;
  for (const std::string& image : {kJpeg, kProgressiveJpeg, kPng, kWebp, kPaletteMask}) {
    for (int i = 0; i < files_testing::kMutations / 4; ++i) {
      const std::string bad = files_testing::mutated(image, random);
      const std::vector<char> exact(bad.begin(), bad.end());
      const std::string_view data(exact.data(), exact.size());
      try {
        ImageSource source;
        source.encoded = data;
        source.head = read_head(data, kMaxPixels);
        if (i % 3 == 0) source.samples = Samples::kMask;
        const Extent extent = source.extent();
        const Box box{extent.width / 3, extent.height / 3, 1 + extent.width / 3, 1 + extent.height / 3};
        const Pixels pixels =
            edited(source, {CropEdit{box}, ResizeEdit{{5, 4}, Interpolation::kBilinear, true}});
        EXPECT_EQ(pixels.extent(), (Extent{5, 4}));
        ++read;
      } catch (const ImageError&) {
        // Damage is an expected outcome.
      }
    }
  }
  EXPECT_GT(read, files_testing::kMutations / 20);
}

}  // namespace
}  // namespace torch_distinput

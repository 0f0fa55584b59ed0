// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images.h"

#include <cmath>
#include <future>
#include <random>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "runtime/arena.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

struct Case {
  std::int64_t images, channels, height, width;
  ChannelDim from;
  ImageLayout to;
  c10::ScalarType dtype;
  bool flips;
};

at::Tensor random_bytes(at::IntArrayRef sizes) {
  std::mt19937 random(7);
  at::Tensor tensor = at::empty(sizes, at::kByte);
  auto* const data = tensor.mutable_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) data[i] = static_cast<std::uint8_t>(random());
  return tensor;
}

ImageScaling scaling_for(const Case& is) {
  ImageScaling scaling{{}, {}, is.dtype, is.to};
  for (std::int64_t c = 0; c < is.channels; ++c) {
    scaling.scale.push_back(0.0171F + 0.001F * static_cast<float>(c));
    scaling.shift.push_back(-2.11F + 0.3F * static_cast<float>(c));
  }
  return scaling;
}

/// The definition in images.h, applied value by value.
at::Tensor reference(const at::Tensor& images, const Case& is, const std::vector<std::uint8_t>& flip) {
  const ImageScaling scaling = scaling_for(is);
  const bool from_last = is.from == ChannelDim::kLast;
  const bool to_last = is.to == ImageLayout::kNhwc;
  at::Tensor result = to_last ? at::empty({is.images, is.height, is.width, is.channels})
                              : at::empty({is.images, is.channels, is.height, is.width});
  const auto* const in = images.const_data_ptr<std::uint8_t>();
  auto* const out = result.mutable_data_ptr<float>();
  for (std::int64_t n = 0; n < is.images; ++n)
    for (std::int64_t c = 0; c < is.channels; ++c)
      for (std::int64_t h = 0; h < is.height; ++h)
        for (std::int64_t w = 0; w < is.width; ++w) {
          const auto at = [&](bool last, std::int64_t x) {
            return last ? ((n * is.height + h) * is.width + x) * is.channels + c
                        : ((n * is.channels + c) * is.height + h) * is.width + x;
          };
          const auto i = static_cast<std::size_t>(c);
          const bool flipped = !flip.empty() && flip[static_cast<std::size_t>(n)] != 0;
          out[at(to_last, flipped ? is.width - 1 - w : w)] =
              std::fma(static_cast<float>(in[at(from_last, w)]), scaling.scale[i], scaling.shift[i]);
        }
  return result.to(is.dtype);
}

void expect_reference(const Case& is) {
  const at::Tensor images = random_bytes(
      is.from == ChannelDim::kLast ? at::IntArrayRef({is.images, is.height, is.width, is.channels})
                                   : at::IntArrayRef({is.images, is.channels, is.height, is.width}));
  std::vector<std::uint8_t> flip;
  for (std::int64_t n = 0; is.flips && n < is.images; ++n) flip.push_back(n % 3 == 1 ? 255 : 0);
  const at::Tensor result = unpack_images(images, is.from, scaling_for(is), flip, *host_pool());
  EXPECT_EQ(result.scalar_type(), is.dtype);
  EXPECT_TRUE(at::equal(result, reference(images, is, flip)));
}

class UnpackImages : public testing::TestWithParam<std::tuple<ChannelDim, ImageLayout, c10::ScalarType>> {};

TEST_P(UnpackImages, GivesTheBitsOfThePlainReference) {
  const auto [from, to, dtype] = GetParam();
  for (const std::int64_t channels : {1, 2, 3, 4, 7, 8, 9})
    for (const std::int64_t width : {1, 5, 32, 67})
      for (const bool flips : {false, true})
        expect_reference({4, channels, 3, width, from, to, dtype, flips});
}

INSTANTIATE_TEST_SUITE_P(All, UnpackImages,
                         testing::Combine(testing::Values(ChannelDim::kLast, ChannelDim::kThirdLast),
                                          testing::Values(ImageLayout::kNchw, ImageLayout::kNhwc),
                                          testing::Values(at::kFloat, at::kHalf, at::kBFloat16)));

TEST(UnpackImagesInAnArena, GivesTheSameBits) {
  const Case is{40, 3, 32, 32, ChannelDim::kLast, ImageLayout::kNchw, at::kFloat, true};
  std::promise<void> done;
  shared_arena()->submit([&] {
    expect_reference(is);
    done.set_value();
  });
  done.get_future().wait();
}

TEST(UnpackImagesOfNothing, KeepsTheDims) {
  const Case is{0, 3, 4, 5, ChannelDim::kLast, ImageLayout::kNchw, at::kFloat, false};
  const at::Tensor result =
      unpack_images(at::empty({0, 4, 5, 3}, at::kByte), is.from, scaling_for(is), {}, *host_pool());
  EXPECT_EQ(result.sizes(), at::IntArrayRef({0, 3, 4, 5}));
}

}  // namespace
}  // namespace torch_distinput

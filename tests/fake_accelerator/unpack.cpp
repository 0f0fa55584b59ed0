// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
/// The operator that a backend registers so that `normalize_images` runs after the copy.
#include <cmath>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <torch/library.h>

#include "state.h"

namespace torch_distinput::fake {
namespace {

void write(void* to, std::int64_t index, c10::ScalarType dtype, float value) {
  if (dtype == at::kHalf)
    static_cast<c10::Half*>(to)[index] = value;
  else if (dtype == at::kBFloat16)
    static_cast<c10::BFloat16*>(to)[index] = value;
  else
    static_cast<float*>(to)[index] = value;
}

void unpack_images(const at::Tensor& images, bool channels_last, at::ArrayRef<double> scale,
                   at::ArrayRef<double> shift, bool to_channels_last, at::Tensor& out) {
  expect_current(out.device().index());
  const std::int64_t channels = std::ssize(scale);
  const std::int64_t pixels = images.size(channels_last ? -3 : -2) * images.size(channels_last ? -2 : -1);
  stream_of(current_stream(out.device().index()))
      .push([=, from = static_cast<const std::uint8_t*>(memory_of(images.const_data_ptr())),
             to = memory_of(out.const_data_ptr()), count = images.numel() / (channels * pixels),
             dtype = out.scalar_type(), scales = scale.vec(), shifts = shift.vec()] {
        for (std::int64_t image = 0; image < count; ++image) {
          for (std::int64_t c = 0; c < channels; ++c) {
            for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
              const std::int64_t start = image * channels * pixels;
              const std::int64_t packed = start + pixel * channels + c;
              const std::int64_t planar = start + c * pixels + pixel;
              const auto channel = static_cast<std::size_t>(c);
              write(to, to_channels_last ? packed : planar, dtype,
                    std::fma(static_cast<float>(from[channels_last ? packed : planar]),
                             static_cast<float>(scales[channel]), static_cast<float>(shifts[channel])));
            }
          }
        }
      });
}

TORCH_LIBRARY_IMPL(torch_distinput, PrivateUse1, library) { library.impl("unpack_images", unpack_images); }

}  // namespace
}  // namespace torch_distinput::fake

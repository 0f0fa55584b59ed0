// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/cuda/unpack_images.h"

namespace torch_distinput {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1 << 20;
/// Neighbouring pixels that one thread of `split_rgb` unpacks, so that it reads words and writes vectors.
constexpr int kPixels = 4;
constexpr int kRgb = 3;

struct Factors {
  float scale[kMaxUnpackChannels];
  float shift[kMaxUnpackChannels];
};

template <class Out>
__device__ Out rounded(float value);
template <>
__device__ float rounded(float value) {
  return value;
}
template <>
__device__ __half rounded(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __nv_bfloat16 rounded(float value) {
  return __float2bfloat16_rn(value);
}

template <class Out>
__device__ Out unpack(std::uint8_t byte, float scale, float shift) {
  return rounded<Out>(__fmaf_rn(static_cast<float>(byte), scale, shift));
}

template <class Out>
struct alignas(kPixels * sizeof(Out)) Vector {
  Out items[kPixels];
};

/// Unpacks images of any shape. In each iteration a thread makes one value, in the order of the result.
template <class Out>
__global__ void unpack_values(UnpackImages work, Factors factors) {
  const std::int64_t pixels = work.height * work.width;
  const std::int64_t count = work.images * pixels * work.channels;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const std::int64_t image = i / (pixels * work.channels);
    const std::int64_t inside = i % (pixels * work.channels);
    const auto channel = static_cast<int>(work.channels_last_out ? inside % work.channels : inside / pixels);
    const std::int64_t pixel = work.channels_last_out ? inside / work.channels : inside % pixels;
    const std::int64_t column = pixel % work.width;
    const bool flipped = work.flip != nullptr && work.flip[image] != 0;
    const std::int64_t source = flipped ? pixel - column + (work.width - 1 - column) : pixel;
    const std::int64_t from =
        image * pixels * work.channels +
        (work.channels_last_in ? source * work.channels + channel : channel * pixels + source);
    static_cast<Out*>(work.to)[i] =
        unpack<Out>(work.from[from], factors.scale[channel], factors.shift[channel]);
  }
}

/// Unpacks RGB images from channels last to three planes. REQUIRES: `width` is a multiple of `kPixels`;
/// `from` and `to` are aligned to words and vectors.
template <class Out>
__global__ void split_rgb(UnpackImages work, Factors factors) {
  const std::int64_t pixels = work.height * work.width;
  const std::int64_t groups = work.images * pixels / kPixels;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t group = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; group < groups;
       group += stride) {
    const std::int64_t image = group * kPixels / pixels;
    const std::int64_t pixel = group * kPixels % pixels;
    const bool flipped = work.flip != nullptr && work.flip[image] != 0;
    union {
      std::uint32_t words[kRgb];
      std::uint8_t bytes[kRgb * kPixels];
    } in;
    const auto* const from = reinterpret_cast<const std::uint32_t*>(work.from) + group * kRgb;
    for (int i = 0; i < kRgb; ++i) in.words[i] = __ldcs(from + i);
    const std::int64_t column = pixel % work.width;
    const std::int64_t target = flipped ? pixel - column + (work.width - kPixels - column) : pixel;
    for (int channel = 0; channel < kRgb; ++channel) {
      Vector<Out> out;
      for (int i = 0; i < kPixels; ++i) {
        out.items[flipped ? kPixels - 1 - i : i] =
            unpack<Out>(in.bytes[kRgb * i + channel], factors.scale[channel], factors.shift[channel]);
      }
      Out* const plane = static_cast<Out*>(work.to) + (image * kRgb + channel) * pixels;
      *reinterpret_cast<Vector<Out>*>(plane + target) = out;
    }
  }
}

bool aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

template <class Out>
cudaError_t launch(const UnpackImages& work, const Factors& factors, cudaStream_t stream) {
  const std::int64_t values = work.images * work.height * work.width * work.channels;
  const bool splits = work.channels == kRgb && work.channels_last_in && !work.channels_last_out &&
                      work.width % kPixels == 0 && aligned(work.from, sizeof(std::uint32_t)) &&
                      aligned(work.to, sizeof(Vector<Out>));
  const std::int64_t turns = splits ? values / (kRgb * kPixels) : values;
  const auto blocks = static_cast<unsigned>(std::min((turns + kThreads - 1) / kThreads, kMaxBlocks));
  if (splits) {
    split_rgb<Out><<<blocks, kThreads, 0, stream>>>(work, factors);
  } else {
    unpack_values<Out><<<blocks, kThreads, 0, stream>>>(work, factors);
  }
  return cudaGetLastError();
}

}  // namespace

int unpack_images(const UnpackImages* work, void* stream) {
  if (work->images * work->height * work->width * work->channels == 0) return cudaSuccess;
  if (work->channels > kMaxUnpackChannels) return cudaErrorInvalidValue;
  Factors factors{};
  std::copy(work->scale, work->scale + work->channels, factors.scale);
  std::copy(work->shift, work->shift + work->channels, factors.shift);
  auto* const queue = static_cast<cudaStream_t>(stream);
  switch (work->type) {
    case UnpackedType::kFloat:
      return launch<float>(*work, factors, queue);
    case UnpackedType::kHalf:
      return launch<__half>(*work, factors, queue);
    default:
      return launch<__nv_bfloat16>(*work, factors, queue);
  }
}

}  // namespace torch_distinput

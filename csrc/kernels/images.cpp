// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>
#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include "kernels/host_memory.h"
#include "kernels/rows.h"

// A function with this attribute is a second version for processors that have these instructions. Without
// them, `std::fma` is a library call for each value, with the same result.
#if defined(__x86_64__)
#define TDI_VECTOR_TARGET __attribute__((target("avx2,fma,f16c"), optimize("O3")))
#define TDI_INLINE __attribute__((always_inline)) inline
#else
#define TDI_VECTOR_TARGET
#define TDI_INLINE inline
#endif

namespace torch_distinput {
namespace {

constexpr std::size_t kImageDims = 3;

/// A number of values that fills a whole number of vector registers on every processor.
constexpr std::int64_t kVector = 16;
constexpr std::int64_t kMaxSideBySide = 8;

/// Batches from this size on are divided among threads.
constexpr std::int64_t kSharedBytes = std::int64_t{1} << 18;

struct Work {
  std::int64_t channels;
  std::int64_t height;
  std::int64_t width;
  bool from_last;  // the channels of a pixel are adjacent (NHWC)
  bool to_last;    // the same for the result
  const float* scale;
  const float* shift;
  const std::uint8_t* from = nullptr;
  void* to = nullptr;
  const std::uint8_t* flip = nullptr;  // null: no image is mirrored

  std::int64_t size() const { return channels * height * width; }
};

/// Items that lie `step` items apart.
template <class T>
struct Line {
  T* data;
  std::int64_t step;
};

template <class Out>
TDI_INLINE void unpack_line(Line<const std::uint8_t> from, Line<Out> to, std::int64_t count, float scale,
                            float shift) {
  const std::uint8_t* __restrict in = from.data;
  Out* __restrict out = to.data;
  // Written out for unit steps, because the compiler vectorises that loop only.
  if (from.step == 1 && to.step == 1) {
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = static_cast<Out>(std::fma(static_cast<float>(in[i]), scale, shift));
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      out[i * to.step] = static_cast<Out>(std::fma(static_cast<float>(in[i * from.step]), scale, shift));
  }
}

/// Unpacks `count` pixels of three adjacent channels into three separate lines.
template <class Out>
TDI_INLINE void split_three(const std::uint8_t* __restrict in, Out* __restrict red, Out* __restrict green,
                            Out* __restrict blue, std::int64_t count, const float* scale,
                            const float* shift) {
  const float scales[3] = {scale[0], scale[1], scale[2]};
  const float shifts[3] = {shift[0], shift[1], shift[2]};
  for (std::int64_t i = 0; i < count; ++i) {
    red[i] = static_cast<Out>(std::fma(static_cast<float>(in[3 * i]), scales[0], shifts[0]));
    green[i] = static_cast<Out>(std::fma(static_cast<float>(in[3 * i + 1]), scales[1], shifts[1]));
    blue[i] = static_cast<Out>(std::fma(static_cast<float>(in[3 * i + 2]), scales[2], shifts[2]));
  }
}

/// Unpacks `count` values whose channels stay adjacent. The factors are repeated until they fill whole
/// vectors, so that the loop loads them instead of gathering single values.
template <class Out>
TDI_INLINE void unpack_side_by_side(const std::uint8_t* __restrict in, Out* __restrict out,
                                    std::int64_t count, std::int64_t channels, const float* scale,
                                    const float* shift) {
  float scales[kMaxSideBySide * kVector];
  float shifts[kMaxSideBySide * kVector];
  const std::int64_t period = channels * kVector;
  for (std::int64_t i = 0; i < period; ++i) {
    scales[i] = scale[i % channels];
    shifts[i] = shift[i % channels];
  }
  for (std::int64_t start = 0; start < count; start += period) {
    const std::int64_t size = std::min(period, count - start);
    for (std::int64_t i = 0; i < size; ++i)
      out[start + i] = static_cast<Out>(std::fma(static_cast<float>(in[start + i]), scales[i], shifts[i]));
  }
}

template <class Out>
void turn_rows(Out* image, const Work& work) {
  for (std::int64_t row = 0; row < work.height * (work.to_last ? 1 : work.channels); ++row) {
    Out* const line = image + row * work.width * (work.to_last ? work.channels : 1);
    if (!work.to_last) {
      std::reverse(line, line + work.width);
      continue;
    }
    for (std::int64_t left = 0, right = work.width - 1; left < right; ++left, --right)
      std::swap_ranges(line + left * work.channels, line + (left + 1) * work.channels,
                       line + right * work.channels);
  }
}

template <class Out>
TDI_INLINE void unpack_image(const Work& work, std::int64_t image) {
  const std::uint8_t* const in = work.from + image * work.size();
  Out* const out = static_cast<Out*>(work.to) + image * work.size();
  const std::int64_t pixels = work.height * work.width;
  if (work.from_last && !work.to_last && work.channels == 3) {
    split_three(in, out, out + pixels, out + 2 * pixels, pixels, work.scale, work.shift);
  } else if (work.from_last && work.to_last && work.channels <= kMaxSideBySide) {
    unpack_side_by_side(in, out, work.size(), work.channels, work.scale, work.shift);
  } else {
    for (std::int64_t c = 0; c < work.channels; ++c) {
      const Line<const std::uint8_t> from{work.from_last ? in + c : in + c * pixels,
                                          work.from_last ? work.channels : 1};
      const Line<Out> to{work.to_last ? out + c : out + c * pixels, work.to_last ? work.channels : 1};
      unpack_line(from, to, pixels, work.scale[c], work.shift[c]);
    }
  }
  if (work.flip != nullptr && work.flip[image] != 0) turn_rows(out, work);
}

Work work_on(at::IntArrayRef dims, ChannelDim from, const ImageScaling& scaling) {
  const bool from_last = from == ChannelDim::kLast;
  const auto last = dims.end();
  return {.channels = scaling.channels(),
          .height = last[from_last ? -3 : -2],
          .width = last[from_last ? -2 : -1],
          .from_last = from_last,
          .to_last = scaling.layout == ImageLayout::kNhwc,
          .scale = scaling.scale.data(),
          .shift = scaling.shift.data()};
}

using Unpack = void (*)(const Work&, std::int64_t begin, std::int64_t end);

template <class Out>
void unpack_plain(const Work& work, std::int64_t begin, std::int64_t end) {
  for (std::int64_t image = begin; image < end; ++image) unpack_image<Out>(work, image);
}

template <class Out>
TDI_VECTOR_TARGET void unpack_vector(const Work& work, std::int64_t begin, std::int64_t end) {
  for (std::int64_t image = begin; image < end; ++image) unpack_image<Out>(work, image);
}

bool has_vectors() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
#else
  return true;
#endif
}

template <class Out>
Unpack unpack_to() {
  return has_vectors() ? unpack_vector<Out> : unpack_plain<Out>;
}

Unpack unpack_for(c10::ScalarType dtype) {
  if (dtype == at::kHalf) return unpack_to<c10::Half>();
  return dtype == at::kBFloat16 ? unpack_to<c10::BFloat16>() : unpack_to<float>();
}

void run(Unpack unpack, const Work& work, std::int64_t images) {
  const bool in_arena = tbb::this_task_arena::current_thread_index() > tbb::task_arena::not_initialized;
  if (!in_arena || images == 1 || images * work.size() < kSharedBytes) return unpack(work, 0, images);
  // Isolated, because a thread that waits here must not start another batch meanwhile.
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, images),
                      [&](const auto& part) { unpack(work, part.begin(), part.end()); });
  });
}

}  // namespace

ChannelDim find_channels(at::IntArrayRef sizes, std::int64_t channels, const std::string& leaf) {
  if (sizes.back() == channels) return ChannelDim::kLast;
  TORCH_CHECK_VALUE(sizes[sizes.size() - kImageDims] == channels, "normalize_images: `mean` and `std` have ",
                    channels, " entries, one for each channel, but ", leaf, " of shape ",
                    dims_string(Dims(sizes.begin(), sizes.end())),
                    " has neither as its last nor as its third last dim ", channels, ".");
  return ChannelDim::kThirdLast;
}

Dims unpacked_dims(Dims dims, ChannelDim from, ImageLayout layout) {
  const auto last = dims.end() - kImageDims;
  const bool to_last = layout == ImageLayout::kNhwc;
  if (from == ChannelDim::kLast && !to_last) std::rotate(last, last + 2, dims.end());
  if (from == ChannelDim::kThirdLast && to_last) std::rotate(last, last + 1, dims.end());
  return dims;
}

bool ImageNormalization::applies_to(c10::ScalarType dtype, std::size_t dims) const {
  return dtype == at::kByte && dims >= kImageDims + (batched ? 1 : 0);
}

at::Tensor unpack_images(const at::Tensor& images, ChannelDim from, const ImageScaling& scaling,
                         std::span<const std::uint8_t> flip, BufferPool& pool) {
  at::Tensor result =
      pooled_tensor(unpacked_dims(images.sizes().vec(), from, scaling.layout), scaling.dtype, pool);
  if (result.numel() == 0) return result;
  Work work = work_on(images.sizes(), from, scaling);
  work.from = reinterpret_cast<const std::uint8_t*>(host_data(images));
  work.to = result.mutable_data_ptr();
  work.flip = flip.empty() ? nullptr : flip.data();
  run(unpack_for(scaling.dtype), work, images.numel() / work.size());
  return result;
}

void unpack_images(const std::uint8_t* images, at::IntArrayRef dims, ChannelDim from,
                   const ImageScaling& scaling, void* to) {
  const std::int64_t count = c10::multiply_integers(dims);
  if (count == 0) return;
  Work work = work_on(dims, from, scaling);
  work.from = images;
  work.to = to;
  run(unpack_for(scaling.dtype), work, count / work.size());
}

}  // namespace torch_distinput

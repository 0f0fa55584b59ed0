// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/transfer/unpack_op.h"

#include <vector>

#include <c10/core/DeviceGuard.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "device/backend_op.h"
#include "device/cuda_library.h"

namespace torch_distinput {
namespace {

constexpr const char* kSchema =
    "unpack_images(Tensor images, bool channels_last, float[] scale, float[] shift, bool to_channels_last, "
    "Tensor(a!) out) -> ()";

using Unpack = void(const at::Tensor&, bool, at::ArrayRef<double>, at::ArrayRef<double>, bool, at::Tensor&);

const c10::OperatorHandle& unpack_operator() {
  static const c10::OperatorHandle handle = backend_op("unpack_images");
  return handle;
}

UnpackedType unpacked_type(c10::ScalarType dtype) {
  if (dtype == at::kHalf) return UnpackedType::kHalf;
  return dtype == at::kBFloat16 ? UnpackedType::kBFloat16 : UnpackedType::kFloat;
}

void unpack_with_cuda(const at::Tensor& images, bool channels_last, at::ArrayRef<double> scale,
                      at::ArrayRef<double> shift, bool to_channels_last, at::Tensor& out) {
  if (images.numel() == 0) return;
  const CudaFunctions* const cuda = cuda_library().functions;
  TORCH_CHECK(cuda != nullptr, "torch_distinput::unpack_images: the CUDA library is not loaded.");
  const std::vector<float> scales(scale.begin(), scale.end());
  const std::vector<float> shifts(shift.begin(), shift.end());
  const auto channels = static_cast<std::int32_t>(scales.size());
  const std::int64_t height = images.size(channels_last ? -3 : -2);
  const std::int64_t width = images.size(channels_last ? -2 : -1);
  const UnpackImages work{
      .from = static_cast<const std::uint8_t*>(images.const_data_ptr()),
      .to = out.mutable_data_ptr(),
      .images = images.numel() / (height * width * channels),
      .height = height,
      .width = width,
      .channels = channels,
      .channels_last_in = channels_last,
      .channels_last_out = to_channels_last,
      .type = unpacked_type(out.scalar_type()),
      .scale = scales.data(),
      .shift = shifts.data(),
      .flip = nullptr,
  };
  const c10::DeviceGuard guard(out.device());
  const c10::Stream stream = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(out.device());
  const int error = cuda->unpack_images(&work, stream.native_handle());
  TORCH_CHECK(error == 0, "torch_distinput::unpack_images: ", cuda->error_text(error), ".");
}

// NOLINTBEGIN: torch's macros
TORCH_LIBRARY_FRAGMENT(torch_distinput, library) { library.def(kSchema); }
TORCH_LIBRARY_IMPL(torch_distinput, CUDA, library) { library.impl("unpack_images", unpack_with_cuda); }
// NOLINTEND

}  // namespace

std::string unpack_obstacle(c10::Device device, std::int64_t channels) {
  if (device.is_cpu()) return "there is a replica on the host";
  if (device.is_cuda()) {
    return channels > kMaxUnpackChannels
               ? "images have more than " + std::to_string(kMaxUnpackChannels) + " channels"
               : cuda_library_obstacle(device);
  }
  return has_kernel(unpack_operator(), device.type())
             ? ""
             : "its backend has no kernel for torch_distinput::unpack_images";
}

void unpack_on_device(const at::Tensor& from, ChannelDim channels, const ImageScaling& scaling,
                      at::Tensor& to) {
  const std::vector<double> scale(scaling.scale.begin(), scaling.scale.end());
  const std::vector<double> shift(scaling.shift.begin(), scaling.shift.end());
  unpack_operator().typed<Unpack>().call(from, channels == ChannelDim::kLast, scale, shift,
                                         scaling.layout == ImageLayout::kNhwc, to);
}

}  // namespace torch_distinput

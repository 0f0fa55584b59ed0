// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/view_cpu_dispatch.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "host_view.h"
#include "state.h"

namespace torch_distinput::fake {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

void queue_copy(const at::Tensor& from, const at::Tensor& to, bool returns_at_once) {
  const c10::DeviceIndex device = (to.device().is_cpu() ? from : to).device().index();
  const c10::Stream stream = current_stream(device);
  expect_guarded();
  expect_no_graph(stream);
  ++state().copies;
  state().copied_bytes += static_cast<std::int64_t>(to.nbytes());
  stream_of(stream).push([source = HostView(from), target = HostView(to), device] {
    take_time(device);
    target.tensor().copy_(source.tensor());
  });
  if (returns_at_once) return;
  ++state().host_waits;
  stream_of(stream).wait();
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  if (dst.numel() == 0) return dst;
  const bool to_device = self.device().is_cpu();
  if (to_device) expect_current(dst.device().index());
  if (self.scalar_type() != dst.scalar_type() || self.sizes() != dst.sizes() || !self.is_contiguous() ||
      !dst.is_contiguous()) {
    queue_copy(self, dst, false);
    return dst;
  }
  const bool at_once = dst.device().is_cpu() ? false
                       : to_device           ? non_blocking && is_page_locked(self.const_data_ptr())
                                             : self.device() == dst.device();
  queue_copy(self, dst, at_once);
  if (to_device && at_once) {
    const at::DataPtr& host = self.storage().data_ptr();
    at::getHostAllocator(kType)->record_event(const_cast<void*>(self.const_data_ptr()), host.get_context(),
                                              current_stream(dst.device().index()));
  }
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.numel() != self.numel()) {
    const auto bytes = static_cast<std::size_t>(self.numel()) * dst.dtype().itemsize();
    const c10::OptionalDeviceGuard guard(dst.device());
    dst.storage().set_data_ptr_noswap(device_allocator()->allocate(bytes));
    dst.storage().set_nbytes(bytes);
    dst.unsafeGetTensorImpl()->set_sizes_contiguous(self.sizes());
  }
  return copy_from(self.contiguous(), dst, false);
}

c10::DeviceIndex index_of(const std::optional<c10::Device>& device) {
  return device && device->has_index() ? device->index() : current().device;
}

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                 std::optional<c10::Device> device, std::optional<bool>,
                 std::optional<c10::MemoryFormat> format) {
  const c10::DeviceGuard guard(c10::Device(kType, index_of(device)));
  return at::detail::empty_generic(size, device_allocator(), kKeys, dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(c10::Device(kType, index_of(device)));
  return at::detail::empty_strided_generic(size, stride, device_allocator(), kKeys,
                                           dtype.value_or(at::kFloat));
}

at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                      std::optional<std::int64_t> offset) {
  return at::cpu::as_strided(self, size, stride, offset);
}

at::Tensor view(const at::Tensor& self, c10::IntArrayRef size) { return at::cpu::view(self, size); }

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset, c10::IntArrayRef size,
                        c10::IntArrayRef stride) {
  return at::cpu::set_(self, std::move(source), offset, size, stride);
}

void record_stream(at::Tensor& self, c10::Stream stream) { use_on(self.storage().data_ptr(), stream); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", as_strided);
  library.impl("view", view);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("record_stream", record_stream);
}

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

}  // namespace

std::shared_ptr<const std::string> snapshot(const at::Tensor& tensor) {
  auto bytes = std::make_shared<std::string>(tensor.nbytes(), '\0');
  const c10::DeviceIndex device = tensor.device().index();
  stream_of(current_stream(device)).push([bytes, from = seen(tensor), device] {
    take_time(device);
    std::memcpy(bytes->data(), from, bytes->size());
  });
  return bytes;
}

}  // namespace torch_distinput::fake

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/byte_elements.h"

#include <cstring>

#include <c10/core/TensorImpl.h>

#include "kernels/rows.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

Element single(at::Tensor values, bool utf8) {
  return {Structure::leaf(), {Bytes{std::move(values), {}, {}, utf8}}};
}

/// Bytes [offset, offset + size) of `values`, sharing memory. Costs a tenth of `narrow`.
at::Tensor piece(const at::Tensor& values, std::int64_t offset, std::int64_t size) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(values.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), values.dtype());
  tensor.unsafeGetTensorImpl()->set_storage_offset(values.storage_offset() + offset);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({&size, 1});
  return tensor;
}

}  // namespace

Element string_element(std::string_view text, bool utf8) {
  const auto size = static_cast<std::int64_t>(text.size());
  at::Tensor values = pooled_tensor({&size, 1}, at::kByte, *host_pool());
  if (size > 0) std::memcpy(values.mutable_data_ptr(), text.data(), text.size());
  return single(std::move(values), utf8);
}

std::vector<Element> string_elements(const at::Tensor& values, std::span<const std::int64_t> sizes,
                                     bool utf8) {
  std::vector<Element> elements;
  elements.reserve(sizes.size());
  std::int64_t offset = 0;
  for (const std::int64_t size : sizes) {
    elements.push_back(single(piece(values, offset, size), utf8));
    offset += size;
  }
  return elements;
}

Element string_column(const at::Tensor& values, std::span<const std::int64_t> sizes, bool utf8,
                      BufferPool& pool) {
  const auto count = static_cast<std::int64_t>(sizes.size());
  const std::int64_t entries = count + 1;
  at::Tensor offsets = pooled_tensor({&entries, 1}, at::kLong, pool);
  auto* ends = static_cast<std::int64_t*>(offsets.mutable_data_ptr());
  *ends = 0;
  for (const std::int64_t size : sizes) {
    ends[1] = ends[0] + size;
    ++ends;
  }
  return {Structure::leaf(), {Bytes{piece(values, 0, *ends), std::move(offsets), {count}, utf8}}};
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/parcel.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/sub.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/TensorOptions.h>

#include <utility>

namespace torch_distinput {
namespace {

/// The values of the leaf's own rows, which may share memory with those of other replicas.
void add_ragged(Freight& freight, const Ragged& ragged) {
  const auto* const bounds = static_cast<const std::int64_t*>(ragged.offsets.const_data_ptr());
  const std::int64_t first = bounds[0];
  const std::int64_t last = bounds[ragged.offsets.size(0) - 1];
  freight.tensors.push_back(ragged.values.narrow(0, first, last - first).contiguous());
  freight.tensors.push_back(first == 0 ? ragged.offsets : at::sub(ragged.offsets, first));
}

}  // namespace

Freight freight_of(const Element& element) {
  Freight freight;
  for (const Leaf& leaf : element.leaves()) {
    if (const auto* dense = std::get_if<at::Tensor>(&leaf)) freight.tensors.push_back(dense->contiguous());
    if (const auto* ragged = std::get_if<Ragged>(&leaf)) add_ragged(freight, *ragged);
    if (const auto* sparse = std::get_if<Sparse>(&leaf)) {
      freight.tensors.push_back(sparse->value._indices().contiguous());
      freight.tensors.push_back(sparse->value._values().contiguous());
    }
  }
  return freight;
}

Element with_freight(const Element& element, const std::vector<at::Tensor>& arrived) {
  Element result = element;
  std::size_t next = 0;
  for (Leaf& leaf : result.leaves()) {
    if (std::holds_alternative<at::Tensor>(leaf)) leaf = arrived[next++];
    if (std::holds_alternative<Ragged>(leaf)) {
      leaf = Ragged{arrived[next], arrived[next + 1]};
      next += 2;
    }
    if (auto* sparse = std::get_if<Sparse>(&leaf)) {
      sparse->value = at::_sparse_coo_tensor_unsafe(arrived[next], arrived[next + 1], sparse->value.sizes(),
                                                    arrived[next + 1].options().layout(at::kSparse),
                                                    sparse->value.is_coalesced());
      next += 2;
    }
  }
  return result;
}

std::vector<Parcel> pack(const Freight& freight) {
  Parcel small;
  std::vector<Parcel> parcels;
  for (std::size_t i = 0; i < freight.tensors.size(); ++i) {
    const std::size_t bytes = freight.tensors[i].nbytes();
    if (bytes == 0) continue;
    if (bytes > kPackedBytes) {
      parcels.push_back({{{i, 0}}, bytes});
    } else {
      const std::size_t offset = (small.bytes + kParcelAlignment - 1) / kParcelAlignment * kParcelAlignment;
      small.pieces.push_back({i, offset});
      small.bytes = offset + bytes;
    }
  }
  if (!small.pieces.empty()) parcels.push_back(std::move(small));
  return parcels;
}

at::Tensor tensor_on(const c10::Storage& storage, std::size_t offset, const at::Tensor& like) {
  const c10::InferenceMode ordinary(false);
  const c10::DispatchKey key = c10::computeDispatchKey(like.scalar_type(), c10::kStrided, storage.device());
  auto tensor =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(key), like.dtype());
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_offset(static_cast<std::int64_t>(offset / like.dtype().itemsize()));
  impl->set_sizes_contiguous(like.sizes());
  return tensor;
}

}  // namespace torch_distinput

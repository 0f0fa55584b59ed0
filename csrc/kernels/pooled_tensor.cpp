// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <utility>

#include "kernels/rows.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

std::int64_t count_items(std::span<const std::int64_t> shape) {
  std::int64_t items = 1;
  for (const std::int64_t dim : shape) items *= dim;
  return items;
}

}  // namespace

at::Tensor pooled_tensor(std::span<const std::int64_t> shape, c10::ScalarType dtype, BufferPool& pool) {
  const auto type = c10::scalarTypeToTypeMeta(dtype);
  const std::size_t bytes = static_cast<std::size_t>(count_items(shape)) * type.itemsize();
  Block block = pool.acquire(bytes);
  void* const data = block.data();
  // With an allocator, so that a user may resize the tensor: it then moves out of the pool.
  c10::Storage storage(
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                            at::DataPtr(data, block.detach(), &Block::reclaim, at::kCPU),
                                            c10::GetCPUAllocator(), /*resizable=*/true));
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                         c10::DispatchKeySet(c10::DispatchKey::CPU), type);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({shape.data(), shape.size()});
  return tensor;
}

BatchBuffer make_batch(const RowLayout& layout, std::int64_t rows, BufferPool& pool) {
  std::vector<Leaf> leaves;
  std::vector<RowSink> sinks;
  leaves.reserve(layout.leaves.size());
  sinks.reserve(layout.leaves.size());
  Dims shape;
  for (const auto& leaf : layout.leaves) {
    shape.assign(1, rows);
    shape.insert(shape.end(), leaf.shape.begin(), leaf.shape.end());
    const auto& tensor = std::get<at::Tensor>(leaves.emplace_back(pooled_tensor(shape, leaf.dtype, pool)));
    sinks.push_back({static_cast<char*>(tensor.mutable_data_ptr()), leaf.bytes});
  }
  return {Element(layout.structure, std::move(leaves)), std::move(sinks)};
}

}  // namespace torch_distinput

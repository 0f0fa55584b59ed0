// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>
#include <vector>

#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include "core/tensor_on.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

std::size_t bytes_of(std::span<const std::int64_t> shape, c10::ScalarType dtype) {
  std::int64_t items = 1;
  for (const std::int64_t dim : shape) items *= dim;
  return static_cast<std::size_t>(items) * c10::elementSize(dtype);
}

c10::Storage pooled_storage(std::size_t bytes, BufferPool& pool) {
  Block block = pool.acquire(bytes);
  void* const data = block.data();
  // The allocator lets users resize the tensor; its memory then moves out of the pool.
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                               at::DataPtr(data, block.detach(), &Block::reclaim, at::kCPU),
                                               c10::GetCPUAllocator(), /*resizable=*/true);
}

/// Returns uninitialised tensors of these shapes. If the pool packs, those up to kPackedBytes share one
/// block; otherwise each has its own.
std::vector<at::Tensor> pooled_tensors(const std::vector<Dims>& shapes, const RowLayout& layout,
                                       BufferPool& pool) {
  std::vector<std::optional<std::size_t>> offsets(shapes.size());
  std::size_t used = 0;
  for (std::size_t i = 0; i < shapes.size() && pool.packing() == Packing::kTogether; ++i) {
    const std::size_t bytes = bytes_of(shapes[i], layout.leaves[i].dtype);
    if (bytes > kPackedBytes) continue;
    offsets[i] = packed_offset(used);
    used = *offsets[i] + bytes;
  }
  c10::Storage shared;
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (offsets[i] && !shared) shared = pooled_storage(used, pool);
    tensors.push_back(offsets[i] ? tensor_on(shared, *offsets[i], shapes[i], layout.leaves[i].dtype)
                                 : pooled_tensor(shapes[i], layout.leaves[i].dtype, pool));
  }
  return tensors;
}

}  // namespace

at::Tensor pooled_tensor(std::span<const std::int64_t> shape, c10::ScalarType dtype, BufferPool& pool) {
  return tensor_on(pooled_storage(bytes_of(shape, dtype), pool), 0, {shape.data(), shape.size()}, dtype);
}

BatchBuffer make_batch(const RowLayout& layout, std::int64_t rows, BufferPool& pool) {
  std::vector<Dims> shapes;
  for (const auto& leaf : layout.leaves) {
    Dims& shape = shapes.emplace_back(1, rows);
    shape.insert(shape.end(), leaf.shape.begin(), leaf.shape.end());
  }
  std::vector<Leaf> leaves;
  std::vector<RowSink> sinks;
  leaves.reserve(layout.leaves.size());
  sinks.reserve(layout.leaves.size());
  for (at::Tensor& tensor : pooled_tensors(shapes, layout, pool)) {
    sinks.push_back({static_cast<char*>(tensor.mutable_data_ptr()), layout.leaves[leaves.size()].bytes});
    leaves.emplace_back(std::move(tensor));
  }
  return {Element(layout.structure, std::move(leaves)), std::move(sinks)};
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/transfer/copy_block.h"

#include <cstring>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/sub.h>
#include <c10/util/Exception.h>

#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

/// A contiguous tensor whose bytes are the values of `tensor`: the memory of a conjugated or negated view
/// holds the original values.
at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.resolve_conj().resolve_neg().contiguous(); }

/// Elements of C++ users' functions may be on any device; those of Python functions are checked on return.
void expect_host(const Element& element, std::size_t leaf, const at::Tensor& tensor) {
  if (tensor.is_cpu()) return;
  const std::string path = element.structure()->leaf_path(static_cast<std::int64_t>(leaf));
  TORCH_CHECK_TYPE(false, "DistributedIterator: ", path.empty() ? "the element" : "leaf " + path, " is on ",
                   tensor.device(),
                   ", but batches go to their devices from host memory; move it with `.cpu()`.");
}

/// Adds the values of the leaf's own rows only: the tensor may also hold rows of other replicas.
void add_ragged(HostTensors& tensors, const Ragged& ragged) {
  const auto* const bounds = static_cast<const std::int64_t*>(ragged.offsets.const_data_ptr());
  const std::int64_t first = bounds[0];
  const std::int64_t last = bounds[ragged.offsets.size(0) - 1];
  tensors.tensors.push_back(as_bytes(ragged.values.narrow(0, first, last - first)));
  tensors.tensors.push_back(first == 0 ? ragged.offsets : at::sub(ragged.offsets, first));
}

/// Whether one owner holds the memory of both, also where each has a storage of its own.
bool same_owner(const at::Tensor& one, const at::Tensor& other) {
  const c10::Storage& storage = one.storage();
  const void* const context = storage.data_ptr().get_context();
  return storage.is_alias_of(other.storage()) ||
         (context != nullptr && context == other.storage().data_ptr().get_context());
}

/// The memory of the pieces if it already has the layout of `copy_block`, as in batches that were gathered
/// into one block or that workers have sent; else null.
const void* common_place(const CopyBlock& copy_block, const HostTensors& tensors) {
  const at::Tensor& first = tensors.tensors[copy_block.pieces.front().tensor];
  const auto* const place = static_cast<const char*>(first.const_data_ptr());
  for (const CopyBlock::Piece& piece : copy_block.pieces) {
    const at::Tensor& tensor = tensors.tensors[piece.tensor];
    if (!same_owner(tensor, first) || tensor.const_data_ptr() != place + piece.offset) return nullptr;
  }
  return place;
}

}  // namespace

HostTensors host_tensors_of(const Element& element) {
  HostTensors tensors;
  for (std::size_t i = 0; i < element.leaves().size(); ++i) {
    const Leaf& leaf = element.leaves()[i];
    if (const auto* dense = std::get_if<at::Tensor>(&leaf)) {
      expect_host(element, i, *dense);
      tensors.whole_leaves.push_back(tensors.tensors.size());
      tensors.tensors.push_back(as_bytes(*dense));
    }
    if (const auto* ragged = std::get_if<Ragged>(&leaf)) {
      expect_host(element, i, ragged->values);
      expect_host(element, i, ragged->offsets);
      add_ragged(tensors, *ragged);
    }
    if (const auto* sparse = std::get_if<Sparse>(&leaf)) {
      expect_host(element, i, sparse->value);
      tensors.tensors.push_back(as_bytes(sparse->value._indices()));
      tensors.tensors.push_back(as_bytes(sparse->value._values()));
    }
  }
  return tensors;
}

Element with_host_tensors(const Element& element, const std::vector<at::Tensor>& arrived) {
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

void put_together(const CopyBlock& copy_block, const HostTensors& tensors, char* to) {
  for (const CopyBlock::Piece& piece : copy_block.pieces) {
    const at::Tensor& tensor = tensors.tensors[piece.tensor];
    std::memcpy(to + piece.offset, tensor.const_data_ptr(), tensor.nbytes());
  }
}

std::vector<CopyBlock> pack(const HostTensors& tensors) {
  CopyBlock small;
  std::vector<CopyBlock> copy_blocks;
  for (std::size_t i = 0; i < tensors.tensors.size(); ++i) {
    const std::size_t bytes = tensors.tensors[i].nbytes();
    if (bytes == 0) continue;
    if (bytes > kPackedBytes) {
      copy_blocks.push_back({{{i, 0}}, bytes, tensors.tensors[i].const_data_ptr()});
    } else {
      const std::size_t offset = packed_offset(small.bytes);
      small.pieces.push_back({i, offset});
      small.bytes = offset + bytes;
    }
  }
  if (small.pieces.empty()) return copy_blocks;
  small.lies_at = common_place(small, tensors);
  copy_blocks.push_back(std::move(small));
  return copy_blocks;
}

}  // namespace torch_distinput

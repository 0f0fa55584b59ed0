// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/dense.h"

#include <cstring>

#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include "kernels/host_memory.h"

namespace torch_distinput {
namespace {

/// Copies a tensor of any strides in row-major order. The innermost dims that are contiguous form runs of
/// `run` bytes; the first `outer_dims` dims are walked index by index.
struct StridedItems {
  const at::Tensor& tensor;
  std::int64_t item;
  std::int64_t outer_dims;
  std::int64_t run;

  explicit StridedItems(const at::Tensor& source)
      : tensor(source),
        item(static_cast<std::int64_t>(source.element_size())),
        outer_dims(source.dim()),
        run(item) {
    while (outer_dims > 0 && tensor.stride(outer_dims - 1) * item == run) run *= tensor.size(--outer_dims);
  }

  char* copy(std::int64_t dim, const char* from, char* to) const {
    if (dim == outer_dims) {
      std::memcpy(to, from, static_cast<std::size_t>(run));
      return to + run;
    }
    const std::int64_t step = tensor.stride(dim) * item;
    if (dim + 1 == outer_dims && run == item) return copy_single_items(tensor.size(dim), step, from, to);
    for (std::int64_t i = 0; i < tensor.size(dim); ++i) to = copy(dim + 1, from + i * step, to);
    return to;
  }

  template <std::size_t kItem>
  static char* copy_items_of(std::int64_t count, std::int64_t step, const char* from, char* to) {
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * kItem, from + i * step, kItem);
    return to + count * kItem;
  }

  char* copy_single_items(std::int64_t count, std::int64_t step, const char* from, char* to) const {
    switch (item) {
      case 1:
        return copy_items_of<1>(count, step, from, to);
      case 2:
        return copy_items_of<2>(count, step, from, to);
      case 4:
        return copy_items_of<4>(count, step, from, to);
      case 8:
        return copy_items_of<8>(count, step, from, to);
      default:
        TORCH_INTERNAL_ASSERT(item == 16, "items of ", item, " bytes");
        return copy_items_of<16>(count, step, from, to);
    }
  }
};

/// A tensor on the storage of `tensor` that begins `offset` items after it.
at::Tensor share(const at::Tensor& tensor, std::int64_t offset, at::IntArrayRef sizes,
                 at::IntArrayRef strides) {
  auto shared = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(tensor.storage()), tensor.key_set(),
                                                         tensor.dtype());
  shared.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, tensor.storage_offset() + offset);
  return shared;
}

}  // namespace

const at::Tensor& dense_leaf(const Element& element, std::size_t leaf, std::string_view op,
                             std::string_view verb) {
  const Leaf& value = element.leaves()[leaf];
  const auto* dense = std::get_if<at::Tensor>(&value);
  TORCH_CHECK_TYPE(dense != nullptr, op, ": ", leaf_name(*element.structure(), leaf), " is a ",
                   leaf_kind(value), " leaf, which ", op, " cannot ", verb,
                   " yet; map it to a dense tensor first.");
  TORCH_CHECK_TYPE(dense->layout() == at::kStrided, op, ": ", leaf_name(*element.structure(), leaf),
                   " has the layout ", dense->layout(), ", which ", op, " cannot ", verb,
                   "; map it to a dense tensor first.");
  TORCH_CHECK_TYPE(dense->device().is_cpu(), op, ": ", leaf_name(*element.structure(), leaf), " is on ",
                   dense->device(), ", but ", op, " works in host memory; move it with `.cpu()` first.");
  return *dense;
}

void copy_items(const at::Tensor& tensor, char* to) {
  if (tensor.numel() == 0) return;
  if (tensor.is_conj() || tensor.is_neg()) return copy_items(tensor.resolve_conj().resolve_neg(), to);
  StridedItems(tensor).copy(0, host_data(tensor), to);
}

at::Tensor share_rows(const at::Tensor& tensor, std::int64_t begin, std::int64_t end) {
  c10::SmallVector<std::int64_t, 6> sizes(tensor.sizes().begin(), tensor.sizes().end());
  sizes.front() = end - begin;
  return share(tensor, begin * tensor.stride(0), sizes, tensor.strides());
}

at::Tensor share_row(const at::Tensor& tensor, std::int64_t row) {
  return share(tensor, row * tensor.stride(0), tensor.sizes().slice(1), tensor.strides().slice(1));
}

}  // namespace torch_distinput

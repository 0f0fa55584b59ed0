// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/tokens/packed_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

#include "core/names.h"
#include "kernels/dense.h"
#include "kernels/host_memory.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

const StructurePtr& packed_structure() {
  static const StructurePtr structure =
      Structure::dict({"tokens", "position_ids", "loss_mask", "cu_seqlens"},
                      {Structure::leaf(), Structure::leaf(), Structure::leaf(), Structure::leaf()});
  return structure;
}

/// The tensors that the leaves of `structure` were made from, to find a leaf by its key.
Element numbered(const StructurePtr& structure) {
  std::vector<Leaf> leaves;
  for (std::int64_t i = 0; i < structure->leaf_count(); ++i) {
    Opaque number;
    number.objects.push_back(std::make_shared<std::size_t>(static_cast<std::size_t>(i)));
    leaves.emplace_back(std::move(number));
  }
  return {structure, std::move(leaves)};
}

std::size_t leaf_with_key(const StructurePtr& structure, const std::string& key) {
  std::optional<Element> part;
  try {
    part = numbered(structure)[key];
  } catch (const c10::Error&) {
  }
  TORCH_CHECK_VALUE(part && part->leaves().size() == 1, kPackName,
                    ": `key` must name one leaf of the elements, ", structure->str(), ", but is '", key,
                    "'.");
  return *static_cast<const std::size_t*>(std::get<Opaque>(part->leaves().front()).objects.front().get());
}

std::size_t leaf_of(const StructurePtr& structure, const PackOptions& options) {
  if (options.key) return leaf_with_key(structure, *options.key);
  TORCH_CHECK_VALUE(structure->leaf_count() == 1, kPackName, ": elements have ", structure->leaf_count(),
                    " leaves, ", structure->str(), "; name the one with the tokens by `key`.");
  return 0;
}

template <class T>
void count_positions(T* positions, std::int64_t begin, std::int64_t count) {
  std::iota(positions + begin, positions + begin + count, T{0});
}

template <class T>
void fill(T* tokens, std::int64_t begin, std::int64_t end, std::int64_t value) {
  std::fill(tokens + begin, tokens + end, static_cast<T>(value));
}

/// Calls `use` with a value of the C++ type of `dtype`.
template <class Use>
void with_packed_type(c10::ScalarType dtype, Use use) {
  if (dtype == c10::kLong) {
    use(std::int64_t{});
  } else {
    use(std::int32_t{});
  }
}

}  // namespace

ElementSpec PackArguments::spec(c10::ScalarType dtype) const {
  return {packed_structure(),
          {TensorSpec{Dims{length}, dtype, {}}, TensorSpec{Dims{length}, dtype, {}},
           TensorSpec{Dims{length}, c10::kBool, {}}, TensorSpec{Dims{bounds()}, c10::kInt, {}}}};
}

std::size_t document_leaf(const ElementSpec& spec, const PackOptions& options) {
  const std::size_t leaf = leaf_of(spec.structure, options);
  const auto* const dense = std::get_if<TensorSpec>(&spec.leaves[leaf]);
  const bool sequence = dense != nullptr && (!dense->shape || dense->shape->size() == 1) &&
                        (dense->dtype == c10::kLong || dense->dtype == c10::kInt);
  TORCH_CHECK_TYPE(sequence, kPackName, ": ", leaf_name(*spec.structure, leaf),
                   " must be a sequence of int64 or int32 tokens, but is ", to_string(spec.leaves[leaf]),
                   ".");
  return leaf;
}

at::Tensor DocumentReader::tokens_of(const Element& element, std::int64_t number) {
  if (element.structure() != structure_) {
    leaf_ = leaf_of(element.structure(), options_);
    structure_ = element.structure();
  }
  const at::Tensor& tokens = dense_leaf(element, leaf_, kPackName, "pack");
  const bool sequence =
      tokens.dim() == 1 && (tokens.scalar_type() == c10::kLong || tokens.scalar_type() == c10::kInt);
  TORCH_CHECK_TYPE(sequence, kPackName, ": document ", number,
                   " must be a sequence of int64 or int32 tokens, but is ",
                   to_string(spec_of(Element(tokens))), ".");
  if (!dtype_) dtype_ = tokens.scalar_type();
  TORCH_CHECK_VALUE(tokens.scalar_type() == *dtype_, kPackName,
                    ": documents must be of one type, but document ", number, " is ",
                    dtype_name(tokens.scalar_type()), " after ", dtype_name(*dtype_), ".");
  return tokens.contiguous();
}

PackedRow::PackedRow(const PackArguments& packing, c10::ScalarType dtype, BufferPool& pool)
    : packing_(&packing),
      tokens_(pooled_tensor({&packing.length, 1}, dtype, pool)),
      positions_(pooled_tensor({&packing.length, 1}, dtype, pool)),
      mask_(pooled_tensor({&packing.length, 1}, c10::kBool, pool)),
      bounds_(pooled_tensor(std::array{packing.bounds()}, c10::kInt, pool)) {}

void PackedRow::add(const Piece& piece) {
  with_packed_type(tokens_.scalar_type(), [&](auto type) {
    using Token = decltype(type);
    const ReadGuard memory(piece.document);
    std::memcpy(static_cast<Token*>(tokens_.mutable_data_ptr()) + used_,
                memory.data() + piece.begin * static_cast<std::int64_t>(sizeof(Token)),
                static_cast<std::size_t>(piece.count) * sizeof(Token));
    count_positions(static_cast<Token*>(positions_.mutable_data_ptr()), used_, piece.count);
  });
  auto* const mask = static_cast<bool*>(mask_.mutable_data_ptr());
  std::fill(mask + used_, mask + used_ + piece.count, true);
  mask[used_] = false;
  static_cast<std::int32_t*>(bounds_.mutable_data_ptr())[documents_++] = static_cast<std::int32_t>(used_);
  used_ += piece.count;
}

Element PackedRow::finish() {
  const std::int64_t length = packing_->length;
  with_packed_type(tokens_.scalar_type(), [&](auto type) {
    using Token = decltype(type);
    fill(static_cast<Token*>(tokens_.mutable_data_ptr()), used_, length, packing_->options.pad_id);
    fill(static_cast<Token*>(positions_.mutable_data_ptr()), used_, length, 0);
  });
  auto* const mask = static_cast<bool*>(mask_.mutable_data_ptr());
  std::fill(mask + used_, mask + length, false);
  auto* const bounds = static_cast<std::int32_t*>(bounds_.mutable_data_ptr());
  if (used_ < length) bounds[documents_++] = static_cast<std::int32_t>(used_);
  fill(bounds, documents_, packing_->bounds(), length);
  return {packed_structure(),
          {std::move(tokens_), std::move(positions_), std::move(mask_), std::move(bounds_)}};
}

}  // namespace torch_distinput

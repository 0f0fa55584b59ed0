// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/tokens/packed_rows.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

#include "core/names.h"
#include "execution/named_leaf.h"
#include "kernels/dense.h"
#include "kernels/host_memory.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {
namespace {

StructurePtr packed_structure(const std::vector<std::string>& keys) {
  std::vector<std::string> names(kPackedNames.begin(), kPackedNames.end());
  for (const std::string& key : keys) {
    names.push_back(key);
    names.push_back(key + kBoundsSuffix);
  }
  std::vector<StructurePtr> leaves(names.size(), Structure::leaf());
  return Structure::dict(std::move(names), std::move(leaves));
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

std::vector<at::Tensor> leaves_of(const RowLayout& layout, BufferPool& pool) {
  std::vector<at::Tensor> leaves;
  for (const LeafLayout& leaf : layout.leaves) leaves.push_back(pooled_tensor(leaf.shape, leaf.dtype, pool));
  return leaves;
}

PackedLeaves addresses_of(const std::vector<at::Tensor>& leaves) {
  PackedLeaves addresses{};
  for (std::size_t leaf = 0; leaf < addresses.size(); ++leaf)
    addresses[leaf] = static_cast<char*>(leaves[leaf].mutable_data_ptr());
  return addresses;
}

}  // namespace

StructurePtr PackArguments::structure() const {
  static const StructurePtr without_keys = packed_structure({});
  return options.keys.empty() ? without_keys : packed_structure(options.keys);
}

RowLayout PackArguments::layout(c10::ScalarType dtype) const {
  const auto leaf = [](c10::ScalarType type, std::int64_t items) {
    return LeafLayout{type, Dims{items}, items * static_cast<std::int64_t>(c10::elementSize(type))};
  };
  return {structure(),
          {leaf(dtype, length), leaf(dtype, length), leaf(c10::kBool, length), leaf(c10::kInt, bounds())}};
}

std::size_t document_leaf(const ElementSpec& spec, const PackOptions& options) {
  const std::size_t leaf = named_leaf(spec.structure, options.key, kPackName);
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
    leaf_ = named_leaf(element.structure(), options_.key, kPackName);
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

char* PackedRowWriter::add(std::int64_t count) {
  const std::int64_t begin = used_;
  const std::int64_t end = begin + count;
  used_ += packing_->places(count);
  with_packed_type(dtype_, [&](auto type) {
    using Token = decltype(type);
    fill(reinterpret_cast<Token*>(leaves_[0]), end, used_, packing_->options.pad_id);
    count_positions(reinterpret_cast<Token*>(leaves_[1]), begin, used_ - begin);
  });
  auto* const mask = reinterpret_cast<bool*>(leaves_[2]);
  std::fill(mask + begin, mask + end, true);
  std::fill(mask + end, mask + used_, false);
  mask[begin] = false;
  reinterpret_cast<std::int32_t*>(leaves_[3])[documents_++] = static_cast<std::int32_t>(begin);
  return leaves_[0] + begin * static_cast<std::int64_t>(c10::elementSize(dtype_));
}

void PackedRowWriter::finish() {
  const std::int64_t length = packing_->length;
  with_packed_type(dtype_, [&](auto type) {
    using Token = decltype(type);
    fill(reinterpret_cast<Token*>(leaves_[0]), used_, length, packing_->options.pad_id);
    fill(reinterpret_cast<Token*>(leaves_[1]), used_, length, 0);
  });
  auto* const mask = reinterpret_cast<bool*>(leaves_[2]);
  std::fill(mask + used_, mask + length, false);
  auto* const bounds = reinterpret_cast<std::int32_t*>(leaves_[3]);
  if (used_ < length) bounds[documents_++] = static_cast<std::int32_t>(used_);
  fill(bounds, documents_, packing_->bounds(), length);
}

PackedRow::PackedRow(const PackArguments& packing, c10::ScalarType dtype, BufferPool& pool)
    : packing_(&packing),
      leaves_(leaves_of(packing.layout(dtype), pool)),
      writer_(packing, dtype, addresses_of(leaves_)) {}

Element PackedRow::take(std::vector<Leaf> carried) {
  std::vector<Leaf> leaves(std::make_move_iterator(leaves_.begin()), std::make_move_iterator(leaves_.end()));
  std::move(carried.begin(), carried.end(), std::back_inserter(leaves));
  return {packing_->structure(), std::move(leaves)};
}

void add_piece(const Piece& piece, PackedRowWriter& row) {
  const auto item = static_cast<std::int64_t>(piece.document.element_size());
  const ReadGuard memory(piece.document);
  std::memcpy(row.add(piece.count), memory.data() + piece.begin * item,
              static_cast<std::size_t>(piece.count * item));
}

}  // namespace torch_distinput

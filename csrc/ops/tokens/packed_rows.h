// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>

#include "torch_distinput/dataset_options.h"
#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

class BufferPool;

inline constexpr std::string_view kPackName = "pack";

/// The arguments of `pack`, checked.
struct PackArguments {
  std::int64_t length;  ///< tokens of a row
  PackOptions options;

  /// Documents that a row may hold.
  std::int64_t most_documents() const { return std::min(options.max_documents.value_or(length), length); }
  /// Entries of `cu_seqlens`: the bounds of that many documents and of what is padded.
  std::int64_t bounds() const { return std::min(most_documents() + 1, length) + 1; }
  /// The type of rows of tokens of this type.
  ElementSpec spec(c10::ScalarType dtype) const;
};

/// The index of the leaf of `spec` that has the documents. Throws c10::ValueError where `key` names none or
/// is needed to choose, and c10::TypeError for a leaf that is not a sequence of int64 or int32.
std::size_t document_leaf(const ElementSpec& spec, const PackOptions& options);

/// A stretch of the tokens of a document.
struct Piece {
  at::Tensor document;  ///< one dim, contiguous
  std::int64_t begin;
  std::int64_t count;  ///< at least 1
};

/// A row under construction.
class PackedRow {
 public:
  /// An empty row for tokens of this type.
  PackedRow(const PackArguments& packing, c10::ScalarType dtype, BufferPool& pool);

  std::int64_t tokens() const { return used_; }
  bool is_full() const { return used_ == packing_->length || documents_ == packing_->most_documents(); }
  std::int64_t space() const { return packing_->length - used_; }
  /// REQUIRES: not full, `piece.count` <= `space()`, and the row's type.
  void add(const Piece& piece);
  /// Pads the row and returns it. REQUIRES: called once.
  Element finish();

 private:
  const PackArguments* packing_;
  at::Tensor tokens_;
  at::Tensor positions_;
  at::Tensor mask_;
  at::Tensor bounds_;
  std::int64_t used_ = 0;
  std::int64_t documents_ = 0;
};

/// Reads the documents of a pipeline and checks them.
class DocumentReader {
 public:
  explicit DocumentReader(PackOptions options) : options_(std::move(options)) {}
  /// The tokens of `element`, document number `number`. Throws c10::ValueError or c10::TypeError for an
  /// element that has none, or of another type than the ones before.
  at::Tensor tokens_of(const Element& element, std::int64_t number);

 private:
  PackOptions options_;
  StructurePtr structure_;  ///< of the element last read
  std::size_t leaf_ = 0;
  std::optional<c10::ScalarType> dtype_;
};

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "torch_distinput/dataset_options.h"
#include "torch_distinput/element.h"
#include "torch_distinput/plan.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

class BufferPool;

inline constexpr std::string_view kPackName = "pack";

/// The leaves of a row, but for those that travel with documents.
inline constexpr std::array<const char*, 4> kPackedNames{"tokens", "position_ids", "loss_mask", "cu_seqlens"};
/// What is added to a key that travels, for the bounds of the documents in it.
inline constexpr const char* kBoundsSuffix = "_cu_seqlens";

/// The arguments of `pack`, checked.
struct PackArguments {
  std::int64_t length;  ///< tokens of a row
  PackOptions options;

  /// Places that `tokens` tokens of a document take in a row.
  std::int64_t places(std::int64_t tokens) const {
    const std::int64_t multiple = options.pad_to_multiple_of;
    return (tokens + multiple - 1) / multiple * multiple;
  }
  /// Documents for which a row has places.
  std::int64_t documents_with_places() const { return length / options.pad_to_multiple_of; }
  /// Documents that a row may hold.
  std::int64_t most_documents() const {
    return std::min(options.max_documents.value_or(length), documents_with_places());
  }
  /// Entries of `cu_seqlens`: the bounds of that many documents and of what is padded.
  std::int64_t bounds() const { return std::min(most_documents() + 1, documents_with_places()) + 1; }
  /// Of rows: a dict of their own leaves, then of those that travel with documents, each with its bounds.
  StructurePtr structure() const;
  /// The layout of the rows' own leaves, for tokens of this type.
  RowLayout layout(c10::ScalarType dtype) const;
};

/// The index of the leaf of `spec` that has the documents. Throws c10::ValueError where `key` names none or
/// is needed to choose, and c10::TypeError for a leaf that is not a sequence of int64 or int32.
std::size_t document_leaf(const ElementSpec& spec, const PackOptions& options);

/// Where the leaves of a row go: tokens, positions, mask and bounds.
using PackedLeaves = std::array<char*, kPackedNames.size()>;

/// Writes a row, all but its tokens.
class PackedRowWriter {
 public:
  /// An empty row for tokens of type `dtype`. `leaves` have room for rows of `packing.layout(dtype)`.
  PackedRowWriter(const PackArguments& packing, c10::ScalarType dtype, const PackedLeaves& leaves)
      : packing_(&packing), dtype_(dtype), leaves_(leaves) {}

  bool is_full() const { return used_ == packing_->length || documents_ == packing_->most_documents(); }
  std::int64_t space() const { return packing_->length - used_; }
  /// Adds a piece of a document, padded to its places, and returns where its tokens go. REQUIRES: not full,
  /// and `count` is in [1, `space()`].
  char* add(std::int64_t count);
  /// Pads the row. REQUIRES: called once.
  void finish();

 private:
  const PackArguments* packing_;
  c10::ScalarType dtype_;
  PackedLeaves leaves_;
  std::int64_t used_ = 0;
  std::int64_t documents_ = 0;
};

/// A row with memory of its own.
class PackedRow {
 public:
  /// An empty row for tokens of type `dtype`.
  PackedRow(const PackArguments& packing, c10::ScalarType dtype, BufferPool& pool);

  PackedRowWriter& writer() { return writer_; }
  /// Returns the row, with the leaves that travel with its documents. REQUIRES: it is written to the end, and
  /// called once.
  Element take(std::vector<Leaf> carried);

 private:
  const PackArguments* packing_;
  std::vector<at::Tensor> leaves_;
  PackedRowWriter writer_;
};

/// A stretch of the tokens of a document.
struct Piece {
  at::Tensor document;  ///< one dim, contiguous
  std::int64_t begin;
  std::int64_t count;  ///< at least 1
};
/// Adds `piece` to `row`. REQUIRES: it has the row's type; else as `PackedRowWriter::add`.
void add_piece(const Piece& piece, PackedRowWriter& row);

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

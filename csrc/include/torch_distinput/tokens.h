// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/files.h"

/// \file
/// Sequences of tokens for language models.

namespace torch_distinput {

/// `TokenOptions::document_boundary`: documents are those of the file's index.
inline constexpr std::int64_t kIndexedDocuments = -1;

/// How tokens become elements.
struct TokenOptions {
  /// Tokens of an input, at least 1; unset: an element is a whole document.
  std::optional<std::int64_t> sequence_length = {};
  /// Tokens from the start of a sequence to that of the next, at least 1; unset: `sequence_length`.
  std::optional<std::int64_t> stride = {};
  /// The token that ends each document, or `kIndexedDocuments`. No sequence then holds tokens of two
  /// documents; what is left at the end of a document and is too short for a sequence is left out. Unset:
  /// documents do not matter.
  std::optional<std::int64_t> document_boundary = {};
  /// Tokens must be in [0, `vocab_size`); unset: not checked.
  std::optional<std::int64_t> vocab_size = {};
  c10::ScalarType output_dtype = c10::kLong;  ///< of elements: Long or Int
};

/// Sequences cut from files of tokens, with random access: tuples of `sequence_length` inputs and as many
/// targets, which are the tokens one place further on. Inputs and targets of a batch are views of one block
/// of memory. Sequences do not cross the ends of files. Reading throws NotFoundError for a missing file,
/// SystemError for one that cannot be read, and InvalidArgumentError, naming file and byte, for an impossible
/// size or index, a token out of range, and a file that changes meanwhile.
class TDI_API TokenDataset : public Dataset {
 public:
  /// A file whose name ends in `.idx` is an index of Megatron-LM, with the tokens in the `.bin` beside; other
  /// files are tokens of type `dtype`, which may be unset where there are only indexes. Throws
  /// c10::ValueError for options out of range.
  TokenDataset(FileNames files, std::optional<c10::ScalarType> dtype, TokenOptions options);
  /// The same over tokens in memory: one dim, any integer type. `offsets` (int64, one dim, copied) are the
  /// bounds of documents as in a list column: the first one, then the end of each. Throws c10::ValueError for
  /// offsets that decrease or lie outside.
  TokenDataset(at::Tensor tokens, std::optional<at::Tensor> offsets, TokenOptions options);
};

}  // namespace torch_distinput

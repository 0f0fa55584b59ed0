// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ops/tokens/packed_rows.h"
#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// The leaves that travel with the documents of one row: for each key they are joined along dim 0, in the
/// documents' order, and their bounds are int32, as many as those of the tokens, so that entry i of both is
/// of one document; the last one is repeated. One thread at a time.
class CarriedLeaves {
 public:
  explicit CarriedLeaves(const PackArguments& packing)
      : packing_(&packing), parts_(packing.options.keys.size()) {}

  /// Adds those of document number `number`. Throws c10::ValueError and c10::TypeError, which name document
  /// and leaf, for one that is missing, not dense, a scalar, or unlike that of the documents before.
  void add(const Element& document, std::int64_t number);
  /// Two leaves for each key, in memory of `pool`. REQUIRES: called once, after `add`.
  std::vector<Leaf> join(BufferPool& pool) const;

  /// Appends the types of what `join` returns to `spec`, for documents of type `documents`. Throws as `add`,
  /// without a document.
  static void append_spec(const PackArguments& packing, const ElementSpec& documents, ElementSpec& spec);

 private:
  const PackArguments* packing_;
  std::vector<std::vector<at::Tensor>> parts_;  ///< of each key, one for each document
};

/// Throws c10::ValueError, which names the document, if leaves travel with it and it is longer than a row.
void check_not_cut(const PackArguments& packing, std::int64_t tokens, std::int64_t number);

}  // namespace torch_distinput

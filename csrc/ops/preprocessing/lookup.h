// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ops/preprocessing/layer.h"
#include "ops/preprocessing/vocabulary.h"

namespace torch_distinput::preprocessing {

/// The rules by which tokens become indices, shared by the layers that look tokens up. Immutable; safe from
/// any thread.
class TokenIndexer {
 public:
  /// Throws c10::TypeError naming `layer` where the mask token is not of the vocabulary's kind.
  TokenIndexer(VocabularyPtr vocabulary, const LookupOptions& options, std::string layer);

  /// Writes the indices of `tokens`; `kNoIndex` for tokens that are masked. Throws InvalidArgumentError
  /// naming tokens that have no index.
  void find(std::span<const std::string_view> tokens, std::int64_t* indices) const;
  void find(std::span<const std::int64_t> tokens, std::int64_t* indices) const;

  /// How the indices are written.
  const VectorOptions& vectors() const noexcept { return vectors_; }
  const Vocabulary& vocabulary() const noexcept { return *vocabulary_; }
  /// The index of the vocabulary's first token.
  std::int64_t first_token() const noexcept { return oov_start_ + oov_count_; }

 private:
  [[noreturn]] void refuse(const std::string& tokens) const;

  VocabularyPtr vocabulary_;
  std::string layer_;
  const StringTable* strings_;
  const IntegerTable* integers_;
  std::optional<Token> mask_;
  std::int64_t mask_index_;
  std::int64_t oov_start_;
  std::int64_t oov_count_;
  bool hashes_;
  Hasher oov_hasher_;
  VectorOptions vectors_;
};

/// Adds the options of a look-up to a description.
void describe_lookup(Description& description, const TokenIndexer& indexer, const LookupOptions& options);

}  // namespace torch_distinput::preprocessing

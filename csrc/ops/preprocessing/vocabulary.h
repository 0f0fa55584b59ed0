// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/preprocessing/token_table.h"
#include "torch_distinput/preprocessing.h"

namespace torch_distinput::preprocessing {

/// A vocabulary of strings.
class StringVocabulary final : public Vocabulary {
 public:
  explicit StringVocabulary(StringTable table) : table_(std::move(table)) {}
  const StringTable& table() const noexcept { return table_; }
  std::int64_t size() const override { return table_.size(); }
  Leaf tokens() const override;
  bool integers() const override { return false; }
  std::uint64_t hash() const override;

 private:
  StringTable table_;
};

/// A vocabulary of integers.
class IntegerVocabulary final : public Vocabulary {
 public:
  explicit IntegerVocabulary(IntegerTable table) : table_(std::move(table)) {}
  const IntegerTable& table() const noexcept { return table_; }
  std::int64_t size() const override { return table_.size(); }
  Leaf tokens() const override;
  bool integers() const override { return true; }
  std::uint64_t hash() const override;

 private:
  IntegerTable table_;
};

}  // namespace torch_distinput::preprocessing

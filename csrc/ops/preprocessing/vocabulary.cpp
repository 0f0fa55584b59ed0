// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/preprocessing/vocabulary.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "base/hash.h"
#include "kernels/preprocessing/hashes.h"

namespace torch_distinput::preprocessing {
namespace {

constexpr std::size_t kNamedRepeats = 5;

[[noreturn]] void throw_repeated(const std::vector<std::string>& repeated) {
  std::string names;
  for (std::size_t i = 0; i < std::min(kNamedRepeats, repeated.size()); ++i)
    names += (i == 0 ? "" : ", ") + repeated[i];
  if (repeated.size() > kNamedRepeats) names += ", ...";
  C10_THROW_ERROR(ValueError,
                  "The passed vocabulary has at least one repeated term. Please uniquify your dataset. The "
                  "repeated terms are: [" +
                      names + "]");
}

void note_once(std::vector<std::string>& repeated, std::string token) {
  if (std::find(repeated.begin(), repeated.end(), token) == repeated.end() &&
      repeated.size() <= kNamedRepeats)
    repeated.push_back(std::move(token));
}

VocabularyPtr of_strings(const Bytes& strings) {
  StringTable table;
  std::vector<std::string> repeated;
  for (std::int64_t i = 0; i < strings.count(); ++i) {
    const std::int64_t before = table.size();
    table.add(strings[i]);
    if (table.size() == before) note_once(repeated, "'" + std::string(strings[i]) + "'");
  }
  if (!repeated.empty()) throw_repeated(repeated);
  return std::make_shared<const StringVocabulary>(std::move(table));
}

VocabularyPtr of_integers(const at::Tensor& integers) {
  const at::Tensor values = integers.cpu().to(at::kLong).contiguous();
  const auto* const data = values.const_data_ptr<std::int64_t>();
  IntegerTable table;
  std::vector<std::string> repeated;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const std::int64_t before = table.size();
    table.add(data[i]);
    if (table.size() == before) note_once(repeated, std::to_string(data[i]));
  }
  if (!repeated.empty()) throw_repeated(repeated);
  return std::make_shared<const IntegerVocabulary>(std::move(table));
}

}  // namespace

Vocabulary::~Vocabulary() = default;

VocabularyPtr Vocabulary::of(const Leaf& tokens) {
  if (const auto* const strings = std::get_if<Bytes>(&tokens)) return of_strings(*strings);
  const auto* const dense = std::get_if<at::Tensor>(&tokens);
  TORCH_CHECK_TYPE(dense != nullptr && !dense->is_floating_point(),
                   "vocabulary: the tokens must be strings or integers, but are a ", leaf_kind(tokens),
                   " leaf.");
  return of_integers(*dense);
}

Leaf StringVocabulary::tokens() const {
  std::vector<std::string_view> strings;
  strings.reserve(static_cast<std::size_t>(size()));
  for (std::int64_t i = 0; i < size(); ++i) strings.push_back(table_[i]);
  return Bytes::column(strings, /*utf8=*/true);
}

std::uint64_t StringVocabulary::hash() const {
  Hash hash;
  for (std::int64_t i = 0; i < size(); ++i) hash.add_word(fingerprint64(table_[i]));
  return hash.value();
}

Leaf IntegerVocabulary::tokens() const {
  at::Tensor tokens = at::empty({size()}, at::kLong);
  for (std::int64_t i = 0; i < size(); ++i) tokens.mutable_data_ptr<std::int64_t>()[i] = table_[i];
  return tokens;
}

std::uint64_t IntegerVocabulary::hash() const {
  Hash hash;
  for (std::int64_t i = 0; i < size(); ++i) hash.add_word(static_cast<std::uint64_t>(table_[i]));
  return hash.value();
}

}  // namespace torch_distinput::preprocessing

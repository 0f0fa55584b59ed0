// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <c10/util/Exception.h>

#include "kernels/preprocessing/tokenizer.h"
#include "ops/preprocessing/layer_input.h"
#include "ops/preprocessing/lookup.h"
#include "torch_distinput/spec.h"

namespace torch_distinput::preprocessing {
namespace {

constexpr const char* kTextName = "TextVectorization";
constexpr const char* kStandardizeNames[] = {"None", "lower", "strip_punctuation",
                                             "lower_and_strip_punctuation"};
constexpr const char* kSplitNames[] = {"None", "whitespace", "character"};

/// Texts that are tokens themselves, looked up at a time.
constexpr std::int64_t kTextsAtOnce = 256;

/// The indices of the tokens of several texts, one after the other.
struct TokenRows {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets{0};
};

at::Tensor tensor_of(const std::vector<std::int64_t>& values) {
  at::Tensor result = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  if (!values.empty())
    std::memcpy(result.mutable_data_ptr(), values.data(), values.size() * sizeof(std::int64_t));
  return result;
}

class TextLayer final : public NamedLayer {
 public:
  TextLayer(TokenIndexer indexer, TextOptions options, std::string description)
      : NamedLayer(kTextName, std::move(description)),
        indexer_(std::move(indexer)),
        options_(std::move(options)) {}

  Leaf call(std::span<const Leaf> inputs, const at::Tensor& row_offsets) const override {
    const Bytes text = text_of(only_input(inputs, kind()));
    std::vector<std::int64_t> outer = text.shape;
    if (row_offsets.defined()) {
      check_shape(options_.split == Split::kNone, {row_offsets.size(0) - 1, kUnknownDim});
      return finish(join_rows(text, offsets_from_zero(row_offsets)), {row_offsets.size(0) - 1});
    }
    if (options_.split == Split::kNone && options_.ngrams.empty()) return unsplit(text);
    if (options_.split == Split::kNone) {
      const std::int64_t width = outer.empty() ? 1 : outer.back();
      if (!outer.empty()) outer.pop_back();
      // N-grams are of the texts along the last dim.
      const std::int64_t rows = c10::multiply_integers(outer);
      return finish(join_rows(text, at::mul(at::arange(rows + 1, at::kLong), width)), std::move(outer),
                    ngrams_of(width));
    }
    if (outer.size() > 1) {
      check_shape(outer.back() == 1, outer);
      outer.pop_back();
    }
    return finish(split_texts(text), std::move(outer));
  }

 private:
  static void check_shape(bool fits, const std::vector<std::int64_t>& shape) {
    TORCH_CHECK_VALUE(fits,
                      "When using `TextVectorization` to tokenize strings, the input rank must be 1 or ",
                      "the last shape dimension must be 1. Received: inputs.shape=", dims_string(shape),
                      " with rank=", shape.size());
  }

  /// The strings of an input. A dense one without items has no strings, as an empty list.
  Bytes text_of(const Leaf& input) const {
    if (const auto* const text = std::get_if<Bytes>(&input)) return *text;
    const auto* const dense = std::get_if<at::Tensor>(&input);
    TORCH_CHECK_TYPE(dense != nullptr && dense->numel() == 0, kind(),
                     ": the input must be strings, but is a ", leaf_kind(input), " leaf.");
    Bytes none = Bytes::column({}, /*utf8=*/true);
    none.shape = dense->sizes().vec();
    return none;
  }

  void append(const std::vector<std::string_view>& tokens, TokenRows& rows) const {
    const std::size_t before = rows.indices.size();
    rows.indices.resize(before + tokens.size());
    indexer_.find(tokens, rows.indices.data() + before);
    rows.offsets.push_back(static_cast<std::int64_t>(rows.indices.size()));
  }

  TokenRows split_texts(const Bytes& text) const {
    Tokenizer tokenizer(options_.standardize, options_.split, options_.ngrams);
    const StringViews views(text);
    TokenRows rows;
    for (std::int64_t i = 0; i < views.count(); ++i) append(tokenizer.split(views[i]), rows);
    return rows;
  }

  /// The n-grams of rows of tokens, which `bounds` divide.
  TokenRows join_rows(const Bytes& tokens, const at::Tensor& bounds) const {
    const auto* const bound = bounds.const_data_ptr<std::int64_t>();
    Tokenizer tokenizer(options_.standardize, Split::kNone, options_.ngrams);
    const StringViews views(tokens);
    TokenRows rows;
    std::vector<std::string_view> row;
    for (std::int64_t i = 0; i + 1 < bounds.size(0); ++i) {
      row.clear();
      for (std::int64_t at = bound[i]; at < bound[i + 1]; ++at) row.push_back(views[at]);
      append(tokenizer.join(row), rows);
    }
    return rows;
  }

  /// Texts that are tokens: the shape stays, but for the length asked for.
  Leaf unsplit(const Bytes& text) const {
    at::Tensor indices = at::empty(text.shape, at::kLong);
    auto* const to = indices.mutable_data_ptr<std::int64_t>();
    Tokenizer tokenizer(options_.standardize, Split::kNone, {});
    const StringViews views(text);
    std::vector<std::string_view> some;
    for (std::int64_t i = 0; i < views.count(); i += kTextsAtOnce) {
      some.clear();
      for (std::int64_t at = i; at < std::min(i + kTextsAtOnce, views.count()); ++at)
        some.push_back(views[at]);
      indexer_.find(tokenizer.join(some), to + i);
    }
    const bool as_indices = indexer_.vectors().output.mode == OutputMode::kInt;
    if (!as_indices || !options_.sequence_length || text.shape.empty())
      return encode({indices, {}}, indexer_.vectors(), {}, kind());
    const std::int64_t width = text.shape.back();
    const std::int64_t length =
        options_.ragged ? std::min(width, *options_.sequence_length) : *options_.sequence_length;
    std::vector<std::int64_t> sizes = text.shape;
    sizes.back() = length;
    at::Tensor cut = at::empty(sizes, at::kLong);
    auto* out = cut.mutable_data_ptr<std::int64_t>();
    const std::int64_t kept = std::min(width, length);
    for (std::int64_t at = 0; at < text.count(); at += width) {
      out = std::copy_n(to + at, kept, out);
      out = std::fill_n(out, length - kept, std::int64_t{0});
    }
    return encode({cut, {}}, indexer_.vectors(), {}, kind());
  }

  /// The number of n-grams of `width` tokens.
  std::int64_t ngrams_of(std::int64_t width) const {
    std::int64_t count = 0;
    for (const std::int64_t tokens : options_.ngrams) count += std::max<std::int64_t>(width - tokens + 1, 0);
    return count;
  }

  /// `outer`: the dims of the texts, one row for each text. `length`: the least length of padded rows.
  Leaf finish(TokenRows rows, std::vector<std::int64_t> outer, std::int64_t length = 0) const {
    const VectorOptions& vectors = indexer_.vectors();
    if (vectors.output.mode != OutputMode::kInt) return as_vectors(rows, outer);
    if (options_.ragged && outer.size() == 1) return as_ragged(rows);
    TORCH_CHECK_VALUE(!options_.ragged || outer.empty(), kind(),
                      ": `ragged=True` needs texts of shape "
                      "[rows] or [rows, 1], because a result has one ragged dim, but they have ",
                      outer.size() + 1, " dims.");
    return as_padded(rows, std::move(outer), length);
  }

  Leaf as_vectors(const TokenRows& rows, const std::vector<std::int64_t>& outer) const {
    const VectorOptions& vectors = indexer_.vectors();
    const at::Tensor indices = tensor_of(rows.indices);
    if (outer.empty()) return encode({indices, {}}, vectors, {}, kind());
    Leaf result = encode({indices, tensor_of(rows.offsets)}, vectors, {}, kind());
    if (outer.size() == 1) return result;
    const auto* const dense = std::get_if<at::Tensor>(&result);
    TORCH_CHECK_VALUE(dense != nullptr, kind(), ": output_mode 'one_hot' and `sparse=True` need texts of ",
                      "shape [rows] or [rows, 1], but they have ", outer.size() + 1, " dims.");
    std::vector<std::int64_t> sizes = outer;
    sizes.push_back(vectors.depth);
    return dense->reshape(sizes);
  }

  Leaf as_ragged(TokenRows& rows) const {
    if (options_.sequence_length) {
      std::size_t kept = 0;
      for (std::size_t row = 0; row + 1 < rows.offsets.size(); ++row) {
        const std::int64_t begin = rows.offsets[row];
        const std::int64_t size = std::min(rows.offsets[row + 1] - begin, *options_.sequence_length);
        rows.offsets[row] = static_cast<std::int64_t>(kept);
        for (std::int64_t at = begin; at < begin + size; ++at)
          rows.indices[kept++] = rows.indices[static_cast<std::size_t>(at)];
      }
      rows.offsets.back() = static_cast<std::int64_t>(kept);
      rows.indices.resize(kept);
    }
    return Ragged{tensor_of(rows.indices).to(indexer_.vectors().output.dtype), tensor_of(rows.offsets)};
  }

  Leaf as_padded(const TokenRows& rows, std::vector<std::int64_t> sizes, std::int64_t length) const {
    for (std::size_t row = 0; row + 1 < rows.offsets.size(); ++row)
      length = std::max(length, rows.offsets[row + 1] - rows.offsets[row]);
    length = options_.sequence_length.value_or(length);
    sizes.push_back(length);
    at::Tensor padded = at::empty(sizes, at::kLong);
    auto* to = padded.mutable_data_ptr<std::int64_t>();
    for (std::size_t row = 0; row + 1 < rows.offsets.size(); ++row) {
      const std::int64_t kept = std::min(length, rows.offsets[row + 1] - rows.offsets[row]);
      to = std::copy_n(rows.indices.data() + rows.offsets[row], kept, to);
      to = std::fill_n(to, length - kept, std::int64_t{0});
    }
    return padded.to(indexer_.vectors().output.dtype);
  }

  TokenIndexer indexer_;
  TextOptions options_;
};

}  // namespace

std::string standardized(std::string_view text, Standardize standardize) {
  std::string result;
  standardize_text(text, standardize, result);
  return result;
}

LayerPtr text_vectorization(VocabularyPtr vocabulary, TextOptions text, LookupOptions lookup) {
  TORCH_CHECK_VALUE(vocabulary != nullptr && !vocabulary->integers(), kTextName,
                    ": `vocabulary` must hold strings.");
  for (const std::int64_t width : text.ngrams)
    TORCH_CHECK_VALUE(width >= 1, kTextName, ": `ngrams` must be at least 1, but has ", width, ".");
  TORCH_CHECK_VALUE(!text.sequence_length || *text.sequence_length >= 0, kTextName,
                    ": `output_sequence_length` must be at least 0, but is ",
                    text.sequence_length.value_or(0), ".");
  TokenIndexer indexer(std::move(vocabulary), lookup, kTextName);
  Description description(kTextName);
  description.add("standardize", kStandardizeNames[static_cast<std::size_t>(text.standardize)]);
  description.add("split", kSplitNames[static_cast<std::size_t>(text.split)]);
  std::string widths;
  for (const std::int64_t width : text.ngrams) widths += (widths.empty() ? "" : "/") + std::to_string(width);
  if (!widths.empty()) description.add("ngrams", widths);
  if (text.sequence_length) description.add("output_sequence_length", *text.sequence_length);
  if (text.ragged) description.add("ragged", "True");
  describe_lookup(description, indexer, lookup);
  return std::make_shared<const TextLayer>(std::move(indexer), std::move(text), description.str());
}

}  // namespace torch_distinput::preprocessing

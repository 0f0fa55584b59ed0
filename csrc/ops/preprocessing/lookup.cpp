// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/preprocessing/lookup.h"

#include <algorithm>
#include <array>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "ops/preprocessing/layer_input.h"
#include "torch_distinput/error.h"

namespace torch_distinput::preprocessing {
namespace {

/// Strings looked up at a time, so that their views stay in the first cache.
constexpr std::size_t kViews = 256;
constexpr std::size_t kNamedTokens = 5;

std::string class_of(const Vocabulary& vocabulary) {
  return vocabulary.integers() ? "IntegerLookup" : "StringLookup";
}

std::string text_of(const Token& token) {
  if (const auto* const string = std::get_if<std::string>(&token)) return "'" + *string + "'";
  return std::to_string(std::get<std::int64_t>(token));
}

std::string text_of(std::string_view token) { return "'" + std::string(token) + "'"; }
std::string text_of(std::int64_t token) { return std::to_string(token); }

/// The first of `tokens` whose index is missing, as text.
template <class Token>
std::string missing(std::span<const Token> tokens, const std::int64_t* indices, std::int64_t no_index) {
  std::string names;
  std::size_t count = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (indices[i] != no_index) continue;
    if (++count > kNamedTokens) return names + " ...";
    names += (count == 1 ? "" : " ") + text_of(tokens[i]);
  }
  return names;
}

/// Stands for a token that is not in the vocabulary, until its index is chosen.
constexpr std::int64_t kUnknown = -2;

template <class Chosen, class Tokens>
void choose(Tokens tokens, std::int64_t* indices, Chosen chosen) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (indices[i] == kUnknown) indices[i] = chosen(tokens[i]);
  }
}

std::int64_t floor_mod(std::int64_t value, std::int64_t divisor) {
  const std::int64_t rest = value % divisor;
  return rest < 0 ? rest + divisor : rest;
}

}  // namespace

TokenIndexer::TokenIndexer(VocabularyPtr vocabulary, const LookupOptions& options, std::string layer)
    : vocabulary_(std::move(vocabulary)),
      layer_(std::move(layer)),
      strings_(nullptr),
      integers_(nullptr),
      mask_(options.mask_token),
      mask_index_(options.output.mode == OutputMode::kInt ? 0 : kNoIndex),
      oov_start_(mask_ && options.output.mode == OutputMode::kInt ? 1 : 0),
      oov_count_(options.num_oov_indices),
      hashes_(options.hash_integers || !vocabulary_->integers()),
      oov_hasher_(options.salt, std::max<std::int64_t>(options.num_oov_indices, 1)),
      vectors_{options.output, options.depth.value_or(first_token() + vocabulary_->size()),
               options.idf_weights} {
  if (vocabulary_->integers()) {
    integers_ = &static_cast<const IntegerVocabulary&>(*vocabulary_).table();
  } else {
    strings_ = &static_cast<const StringVocabulary&>(*vocabulary_).table();
  }
  TORCH_CHECK_VALUE(oov_count_ >= 0, layer_, ": `num_oov_indices` must be at least 0, but is ", oov_count_,
                    ".");
  TORCH_CHECK_TYPE(!mask_ || std::holds_alternative<std::int64_t>(*mask_) == vocabulary_->integers(), layer_,
                   ": `mask_token` must be of the vocabulary's type, but is ", text_of(*mask_), ".");
  const bool weighted = options.output.mode == OutputMode::kTfIdf;
  TORCH_CHECK_VALUE(!weighted || (vectors_.weights.defined() && vectors_.weights.numel() == vectors_.depth),
                    layer_, ": `idf_weights` must have ", vectors_.depth,
                    " entries, one for each entry of a vector, in output_mode 'tf_idf'.");
}

void TokenIndexer::refuse(const std::string& tokens) const {
  throw InvalidArgumentError(layer_ +
                             ": When `num_oov_indices=0` all inputs should be in vocabulary, found " +
                             "OOV values [" + tokens + "], consider setting `num_oov_indices=1`.");
}

void TokenIndexer::find(std::span<const std::string_view> tokens, std::int64_t* indices) const {
  strings_->find(tokens, indices);
  const std::int64_t first = first_token();
  const std::int64_t unknown = oov_count_ == 1 ? oov_start_ : kUnknown;
  const auto* const mask = mask_ ? std::get_if<std::string>(&*mask_) : nullptr;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    indices[i] = indices[i] == kNoToken ? unknown : indices[i] + first;
  if (mask != nullptr) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] == *mask) indices[i] = mask_index_;
    }
  }
  if (oov_count_ == 1) return;
  if (oov_count_ > 1)
    return choose(tokens, indices,
                  [this](std::string_view token) { return oov_start_ + oov_hasher_.bin(token); });
  const std::string refused = missing(tokens, indices, kUnknown);
  if (!refused.empty()) refuse(refused);
}

void TokenIndexer::find(std::span<const std::int64_t> tokens, std::int64_t* indices) const {
  const std::int64_t first = first_token();
  const std::int64_t unknown = oov_count_ == 1 ? oov_start_ : kUnknown;
  const auto* const mask = mask_ ? std::get_if<std::int64_t>(&*mask_) : nullptr;
  integers_->find(tokens, indices);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    indices[i] = indices[i] == kNoToken ? unknown : indices[i] + first;
    if (mask != nullptr && tokens[i] == *mask) indices[i] = mask_index_;
  }
  if (oov_count_ == 1) return;
  if (oov_count_ > 1)
    return choose(tokens, indices, [this](std::int64_t token) {
      return oov_start_ + (hashes_ ? oov_hasher_.bin(token) : floor_mod(token, oov_count_));
    });
  const std::string refused = missing(tokens, indices, kUnknown);
  if (!refused.empty()) refuse(refused);
}

void describe_lookup(Description& description, const TokenIndexer& indexer, const LookupOptions& options) {
  description.add("num_oov_indices", options.num_oov_indices);
  if (options.mask_token) description.add("mask_token", text_of(*options.mask_token));
  if (options.hash_integers) description.add("oov_method", "farmhash");
  if (options.salt)
    description.add("salt", std::to_string((*options.salt)[0]) + "/" + std::to_string((*options.salt)[1]));
  description.add(options.output);
  if (options.output.mode != OutputMode::kInt) description.add("depth", indexer.vectors().depth);
  if (options.idf_weights.defined()) description.add_hash("idf_weights", options.idf_weights);
  description.add(indexer.vocabulary());
}

namespace {

class LookupLayer final : public NamedLayer {
 public:
  LookupLayer(TokenIndexer indexer, std::string kind, std::string description)
      : NamedLayer(std::move(kind), std::move(description)), indexer_(std::move(indexer)) {}

  Leaf call(std::span<const Leaf> inputs, const at::Tensor& row_offsets) const override {
    const LayerInput input(only_input(inputs, kind()), row_offsets, kind());
    at::Tensor indices = input.empty_indices();
    auto* const to = indices.mutable_data_ptr<std::int64_t>();
    if (indexer_.vocabulary().integers()) {
      TORCH_CHECK_TYPE(!input.is_text(), kind(), ": the input must be integers, but is strings.");
      const at::Tensor numbers = input.numbers(at::kLong);
      indexer_.find(
          std::span(numbers.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(numbers.numel())), to);
    } else {
      find_strings(input, to);
    }
    return input.finish(indices, indexer_.vectors());
  }

 private:
  void find_strings(const LayerInput& input, std::int64_t* to) const {
    TORCH_CHECK_TYPE(input.is_text() || input.count() == 0, kind(),
                     ": the input must be strings, but is numbers.");
    if (!input.is_text()) return;
    const StringViews text(input.text());
    std::array<std::string_view, kViews> views;
    for (std::int64_t first = 0; first < text.count(); first += kViews) {
      const auto size = static_cast<std::size_t>(std::min<std::int64_t>(kViews, text.count() - first));
      for (std::size_t i = 0; i < size; ++i) views[i] = text[first + static_cast<std::int64_t>(i)];
      indexer_.find(std::span(views.data(), size), to + first);
    }
  }

  TokenIndexer indexer_;
};

/// Tokens of indices.
class InverseLayer final : public NamedLayer {
 public:
  InverseLayer(TokenIndexer indexer, LookupOptions options, std::string kind, std::string description)
      : NamedLayer(std::move(kind), std::move(description)),
        indexer_(std::move(indexer)),
        options_(std::move(options)) {}

  Leaf call(std::span<const Leaf> inputs, const at::Tensor& row_offsets) const override {
    const LayerInput input(only_input(inputs, kind()), row_offsets, kind());
    TORCH_CHECK_TYPE(!input.is_text() && !input.offsets().defined(), kind(),
                     ": an inverse look-up takes a dense tensor of indices.");
    const at::Tensor numbers = input.numbers(at::kLong);
    const std::span indices(numbers.const_data_ptr<std::int64_t>(),
                            static_cast<std::size_t>(numbers.numel()));
    return indexer_.vocabulary().integers() ? integers(indices, numbers) : strings(indices, numbers);
  }

 private:
  Leaf strings(std::span<const std::int64_t> indices, const at::Tensor& shape) const {
    const auto& table = static_cast<const StringVocabulary&>(indexer_.vocabulary()).table();
    const std::string_view unknown = std::get<std::string>(options_.oov_token);
    const std::string_view mask = options_.mask_token ? std::get<std::string>(*options_.mask_token) : unknown;
    std::vector<std::string_view> found;
    found.reserve(indices.size());
    for (const std::int64_t index : indices) {
      const std::int64_t number = index - indexer_.first_token();
      const bool known = number >= 0 && number < table.size();
      found.push_back(known ? table[number] : index == 0 ? mask : unknown);
    }
    Bytes column = Bytes::column(found, /*utf8=*/true);
    column.shape = shape.sizes().vec();
    return column;
  }

  Leaf integers(std::span<const std::int64_t> indices, const at::Tensor& shape) const {
    const auto& table = static_cast<const IntegerVocabulary&>(indexer_.vocabulary()).table();
    const std::int64_t unknown = std::get<std::int64_t>(options_.oov_token);
    const std::int64_t mask = options_.mask_token ? std::get<std::int64_t>(*options_.mask_token) : unknown;
    at::Tensor found = at::empty(shape.sizes(), at::kLong);
    auto* to = found.mutable_data_ptr<std::int64_t>();
    for (const std::int64_t index : indices) {
      const std::int64_t number = index - indexer_.first_token();
      const bool known = number >= 0 && number < table.size();
      *to++ = known ? table[number] : index == 0 ? mask : unknown;
    }
    return found;
  }

  TokenIndexer indexer_;
  LookupOptions options_;
};

std::string description_of(const std::string& kind, const TokenIndexer& indexer, const LookupOptions& options,
                           bool inverse) {
  Description description(kind);
  if (inverse) description.add("invert", "True").add("oov_token", text_of(options.oov_token));
  describe_lookup(description, indexer, options);
  return description.str();
}

}  // namespace

LayerPtr lookup(VocabularyPtr vocabulary, LookupOptions options) {
  TORCH_CHECK_VALUE(vocabulary != nullptr, "lookup: `vocabulary` must not be null.");
  const std::string kind = class_of(*vocabulary);
  TokenIndexer indexer(std::move(vocabulary), options, kind);
  std::string description = description_of(kind, indexer, options, /*inverse=*/false);
  return std::make_shared<const LookupLayer>(std::move(indexer), kind, std::move(description));
}

LayerPtr inverse_lookup(VocabularyPtr vocabulary, LookupOptions options) {
  TORCH_CHECK_VALUE(vocabulary != nullptr, "inverse_lookup: `vocabulary` must not be null.");
  const std::string kind = class_of(*vocabulary);
  options.output.mode = OutputMode::kInt;
  if (vocabulary->integers() && std::holds_alternative<std::string>(options.oov_token))
    options.oov_token = std::int64_t{-1};
  TokenIndexer indexer(std::move(vocabulary), options, kind);
  std::string description = description_of(kind, indexer, options, /*inverse=*/true);
  return std::make_shared<const InverseLayer>(std::move(indexer), std::move(options), kind,
                                              std::move(description));
}

}  // namespace torch_distinput::preprocessing

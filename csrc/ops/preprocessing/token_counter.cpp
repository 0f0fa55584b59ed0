// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/preprocessing/token_table.h"
#include "kernels/preprocessing/tokenizer.h"
#include "ops/preprocessing/layer_input.h"
#include "torch_distinput/spec.h"

namespace torch_distinput::preprocessing {
namespace {

constexpr const char* kCounterName = "adapt";

at::Tensor column_of(const std::vector<std::int64_t>& values) {
  at::Tensor result = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  if (!values.empty())
    std::memcpy(result.mutable_data_ptr(), values.data(), values.size() * sizeof(std::int64_t));
  return result;
}

std::int64_t at_row(const at::Tensor& column, std::int64_t row) {
  return column.const_data_ptr<std::int64_t>()[row];
}

/// The counts of the tokens of a table, by their numbers.
class Tally {
 public:
  void begin_document() { ++documents_seen_; }
  void count(std::int64_t number) {
    const auto at = static_cast<std::size_t>(number);
    if (at >= counts_.size()) grow(at + 1);
    ++counts_[at];
    if (last_[at] == documents_seen_) return;
    last_[at] = documents_seen_;
    ++documents_[at];
  }
  void add(std::int64_t number, std::int64_t count, std::int64_t documents) {
    const auto at = static_cast<std::size_t>(number);
    if (at >= counts_.size()) grow(at + 1);
    counts_[at] += count;
    documents_[at] += documents;
  }
  /// Documents that other counters saw; begins none here.
  void add_documents(std::int64_t count) { others_ += count; }
  std::int64_t count_of(std::int64_t number) const { return counts_[static_cast<std::size_t>(number)]; }
  std::int64_t documents_of(std::int64_t number) const {
    return documents_[static_cast<std::size_t>(number)];
  }
  std::int64_t num_documents() const noexcept { return documents_seen_ + others_; }

 private:
  void grow(std::size_t size) {
    counts_.resize(size);
    documents_.resize(size);
    last_.resize(size);
  }

  std::vector<std::int64_t> counts_;
  std::vector<std::int64_t> documents_;
  std::vector<std::int64_t> last_;  ///< the last document with the token; 0: none
  std::int64_t documents_seen_ = 0;
  std::int64_t others_ = 0;
};

/// Where the documents of a batch begin: rows of dim 0, or one document for a batch of at most one dim.
std::vector<std::int64_t> document_bounds(at::IntArrayRef sizes, const at::Tensor& offsets) {
  std::vector<std::int64_t> bounds{0};
  if (offsets.defined()) {
    const std::int64_t inner = sizes.size() > 1 ? c10::multiply_integers(sizes.slice(1)) : 1;
    for (std::int64_t row = 1; row < offsets.size(0); ++row) bounds.push_back(at_row(offsets, row) * inner);
  } else if (sizes.size() < 2) {
    bounds.push_back(c10::multiply_integers(sizes));
  } else {
    const std::int64_t width = c10::multiply_integers(sizes.slice(1));
    for (std::int64_t row = 1; row <= sizes[0]; ++row) bounds.push_back(row * width);
  }
  return bounds;
}

/// What both kinds of tokens share. `Table` numbers them; `View` is a token of it.
template <class Table, class View>
class Counter : public TokenCounter {
 public:
  std::int64_t size() const override { return table_.size(); }
  std::int64_t num_documents() const override { return tally_.num_documents(); }

  TokenCounts counts() const override {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(table_.size()));
    std::iota(numbers.begin(), numbers.end(), 0);
    return select(numbers);
  }

  TokenCounts top(std::optional<std::int64_t> limit, const std::vector<Token>& excluded) const override {
    std::vector<std::int64_t> numbers;
    for (std::int64_t number = 0; number < table_.size(); ++number) {
      if (!is_excluded(table_[number], excluded)) numbers.push_back(number);
    }
    const auto all = static_cast<std::int64_t>(numbers.size());
    const std::int64_t kept = std::clamp<std::int64_t>(limit.value_or(all), 0, all);
    std::partial_sort(numbers.begin(), numbers.begin() + kept, numbers.end(),
                      [this](std::int64_t a, std::int64_t b) {
                        const std::int64_t more = tally_.count_of(a) - tally_.count_of(b);
                        return more != 0 ? more > 0 : table_[a] > table_[b];
                      });
    numbers.resize(static_cast<std::size_t>(kept));
    return select(numbers);
  }

 protected:
  void count_document(const std::vector<View>& tokens) {
    tally_.begin_document();
    for (const View& token : tokens) tally_.count(table_.add(token));
  }
  void merge_token(const View& token, const TokenCounts& other, std::int64_t row) {
    tally_.add(table_.add(token), at_row(other.counts, row), at_row(other.documents, row));
  }
  Tally& tally() noexcept { return tally_; }
  const Table& table() const noexcept { return table_; }

 private:
  static bool is_excluded(const View& token, const std::vector<Token>& excluded) {
    return std::any_of(excluded.begin(), excluded.end(), [&](const Token& other) {
      using Owned = std::conditional_t<std::is_same_v<View, std::string_view>, std::string, std::int64_t>;
      const auto* const same = std::get_if<Owned>(&other);
      return same != nullptr && *same == token;
    });
  }

  virtual Leaf tokens_of(const std::vector<std::int64_t>& numbers) const = 0;

  TokenCounts select(const std::vector<std::int64_t>& numbers) const {
    std::vector<std::int64_t> counts;
    std::vector<std::int64_t> documents;
    for (const std::int64_t number : numbers) {
      counts.push_back(tally_.count_of(number));
      documents.push_back(tally_.documents_of(number));
    }
    return {tokens_of(numbers), column_of(counts), column_of(documents), tally_.num_documents()};
  }

  Table table_;
  Tally tally_;
};

class IntegerCounter final : public Counter<IntegerTable, std::int64_t> {
 public:
  void add(const Leaf& batch, const at::Tensor& row_offsets) override {
    const LayerInput input(batch, row_offsets, kCounterName);
    TORCH_CHECK_TYPE(!input.is_text(), kCounterName, ": the data must be integers, but is strings.");
    const at::Tensor numbers = input.numbers(at::kLong);
    const auto* const data = numbers.const_data_ptr<std::int64_t>();
    const std::vector<std::int64_t> bounds = document_bounds(numbers.sizes(), input.offsets());
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i)
      count_document(std::vector<std::int64_t>(data + bounds[i], data + bounds[i + 1]));
  }

  void merge(const TokenCounts& other) override {
    const auto* const tokens = std::get_if<at::Tensor>(&other.tokens);
    TORCH_CHECK_TYPE(tokens != nullptr, kCounterName, ": counts of strings cannot be added to integers.");
    for (std::int64_t row = 0; row < tokens->numel(); ++row) merge_token(at_row(*tokens, row), other, row);
    tally().add_documents(other.num_documents);
  }

 private:
  Leaf tokens_of(const std::vector<std::int64_t>& numbers) const override {
    std::vector<std::int64_t> tokens;
    for (const std::int64_t number : numbers) tokens.push_back(table()[number]);
    return column_of(tokens);
  }
};

class StringCounter final : public Counter<StringTable, std::string_view> {
 public:
  explicit StringCounter(std::optional<Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  void add(const Leaf& batch, const at::Tensor& row_offsets) override {
    const LayerInput input(batch, row_offsets, kCounterName);
    TORCH_CHECK_TYPE(input.is_text() || input.count() == 0, kCounterName,
                     ": the data must be strings, but is numbers.");
    if (!input.is_text()) return;
    if (tokenizer_ && !row_offsets.defined()) return add_texts(input.text());
    const std::vector<std::int64_t> bounds = document_bounds(input.text().shape, input.offsets());
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      tokens_.clear();
      for (std::int64_t at = bounds[i]; at < bounds[i + 1]; ++at) tokens_.push_back(input.text()[at]);
      count_document(tokenizer_ ? tokenizer_->join(tokens_) : tokens_);
    }
  }

  void merge(const TokenCounts& other) override {
    const auto* const tokens = std::get_if<Bytes>(&other.tokens);
    TORCH_CHECK_TYPE(tokens != nullptr, kCounterName, ": counts of integers cannot be added to strings.");
    for (std::int64_t row = 0; row < tokens->count(); ++row) merge_token((*tokens)[row], other, row);
    tally().add_documents(other.num_documents);
  }

 private:
  void add_texts(const Bytes& texts) {
    TORCH_CHECK_VALUE(
        !tokenizer_->splits() || texts.shape.size() < 2 || texts.shape.back() == 1,
        "When using `TextVectorization` to tokenize strings, the input rank must be 1 or the last "
        "shape dimension must be 1. Received: inputs.shape=",
        dims_string(texts.shape), " with rank=", texts.shape.size());
    for (std::int64_t i = 0; i < texts.count(); ++i) count_document(tokenizer_->split(texts[i]));
  }

  Leaf tokens_of(const std::vector<std::int64_t>& numbers) const override {
    std::vector<std::string_view> tokens;
    for (const std::int64_t number : numbers) tokens.push_back(table()[number]);
    return Bytes::column(tokens, /*utf8=*/true);
  }

  std::optional<Tokenizer> tokenizer_;
  std::vector<std::string_view> tokens_;
};

}  // namespace

TokenCounter::~TokenCounter() = default;

std::unique_ptr<TokenCounter> TokenCounter::of_integers() { return std::make_unique<IntegerCounter>(); }

std::unique_ptr<TokenCounter> TokenCounter::of_strings() {
  return std::make_unique<StringCounter>(std::nullopt);
}

std::unique_ptr<TokenCounter> TokenCounter::of_texts(const TextOptions& text) {
  return std::make_unique<StringCounter>(Tokenizer(text.standardize, text.split, text.ngrams));
}

}  // namespace torch_distinput::preprocessing

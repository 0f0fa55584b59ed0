// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

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
  /// Makes room for `size` tokens. REQUIRES: before `count` and `add` of their numbers.
  void reserve(std::int64_t size) {
    if (static_cast<std::size_t>(size) > rows_.size()) rows_.resize(static_cast<std::size_t>(size));
  }
  void expect(std::int64_t number) const { __builtin_prefetch(&row(number), 1); }
  void count(std::int64_t number) {
    Row& row = rows_[static_cast<std::size_t>(number)];
    ++row.count;
    row.documents += row.last == documents_seen_ ? 0 : 1;
    row.last = documents_seen_;
  }
  void add(std::int64_t number, std::int64_t count, std::int64_t documents) {
    Row& row = rows_[static_cast<std::size_t>(number)];
    row.count += count;
    row.documents += documents;
  }
  /// Documents that other counters saw; begins none here.
  void add_documents(std::int64_t count) { others_ += count; }
  std::int64_t count_of(std::int64_t number) const { return row(number).count; }
  std::int64_t documents_of(std::int64_t number) const { return row(number).documents; }
  std::int64_t num_documents() const noexcept { return documents_seen_ + others_; }

 private:
  struct Row {
    std::int64_t count = 0;
    std::int64_t documents = 0;
    std::int64_t last = 0;  ///< the last document with the token; 0: none
  };
  const Row& row(std::int64_t number) const { return rows_[static_cast<std::size_t>(number)]; }

  std::vector<Row> rows_;
  std::int64_t documents_seen_ = 0;
  std::int64_t others_ = 0;
};

/// What a token is sorted by: its count, then its first bytes, which spare most looks at the token itself.
struct SortKey {
  std::int64_t count;
  std::array<std::uint64_t, 2> prefix;
  std::int64_t number;
};

std::array<std::uint64_t, 2> prefix_of(std::string_view token) {
  std::array<std::uint64_t, 2> prefix{};
  for (std::size_t i = 0; i < 16; ++i) {
    const std::uint64_t byte = i < token.size() ? static_cast<unsigned char>(token[i]) : 0;
    prefix[i / 8] = prefix[i / 8] << 8 | byte;
  }
  return prefix;
}

std::array<std::uint64_t, 2> prefix_of(std::int64_t token) {
  return {static_cast<std::uint64_t>(token) ^ (std::uint64_t{1} << 63), 0};
}

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
    std::vector<SortKey> keys;
    for (std::int64_t number = 0; number < table_.size(); ++number) {
      if (!is_excluded(table_[number], excluded))
        keys.push_back({tally_.count_of(number), prefix_of(table_[number]), number});
    }
    const auto all = static_cast<std::int64_t>(keys.size());
    const std::int64_t kept = std::clamp<std::int64_t>(limit.value_or(all), 0, all);
    const auto before = [this](const SortKey& a, const SortKey& b) {
      if (a.count != b.count) return a.count > b.count;
      if (a.prefix != b.prefix) return a.prefix > b.prefix;
      return table_[a.number] > table_[b.number];
    };
    if (kept < all) std::nth_element(keys.begin(), keys.begin() + kept, keys.end(), before);
    std::sort(keys.begin(), keys.begin() + kept, before);
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < kept; ++i) numbers.push_back(keys[static_cast<std::size_t>(i)].number);
    return select(numbers);
  }

 protected:
  void count_document(const std::vector<View>& tokens) {
    tally_.begin_document();
    count_tokens(tokens);
  }
  /// Counts tokens of the present document.
  void count_tokens(const std::vector<View>& tokens) {
    numbers_.resize(tokens.size());
    table_.find(tokens, numbers_.data());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (numbers_[i] == kNoToken) {
        numbers_[i] = table_.add(tokens[i]);
      } else {
        tally_.expect(numbers_[i]);
      }
    }
    tally_.reserve(table_.size());
    for (const std::int64_t number : numbers_) tally_.count(number);
  }
  void merge_token(const View& token, const TokenCounts& other, std::int64_t row) {
    const std::int64_t number = table_.add(token);
    tally_.reserve(table_.size());
    tally_.add(number, at_row(other.counts, row), at_row(other.documents, row));
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
  std::vector<std::int64_t> numbers_;  ///< of the tokens of one document
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
    if (tokenizer_ && tokenizer_->splits()) return add_texts(input.text());
    const StringViews text(input.text());
    const std::vector<std::int64_t>& sizes = input.text().shape;
    const std::vector<std::int64_t> bounds = document_bounds(sizes, input.offsets());
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      const std::int64_t size = bounds[i + 1] - bounds[i];
      tally().begin_document();
      // N-grams are of tokens along the last dim, and a document has one or more rows of them.
      const std::int64_t width = input.offsets().defined() || sizes.empty() ? size : sizes.back();
      for (std::int64_t row = bounds[i]; row < bounds[i + 1]; row += width) {
        tokens_.clear();
        for (std::int64_t at = row; at < row + width; ++at) tokens_.push_back(text[at]);
        count_tokens(tokenizer_ ? tokenizer_->join(tokens_) : tokens_);
      }
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
        texts.shape.size() < 2 || texts.shape.back() == 1,
        "When using `TextVectorization` to tokenize strings, the input rank must be 1 or the last "
        "shape dimension must be 1. Received: inputs.shape=",
        dims_string(texts.shape), " with rank=", texts.shape.size());
    const StringViews views(texts);
    for (std::int64_t i = 0; i < views.count(); ++i) count_document(tokenizer_->split(views[i]));
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

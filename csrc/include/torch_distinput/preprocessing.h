// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"
#include "torch_distinput/function.h"

/// \file
/// Layers that turn raw features into numbers, with the rules of Keras' preprocessing layers. Each is a
/// function for `Dataset::map`: it runs on whole batches, on any thread, and its name (which tells its
/// options and a hash of its vocabulary) is part of the pipeline's identity.

namespace torch_distinput::preprocessing {

/// What a layer makes of indices: the indices; a vector of `depth` zeros and a one for each; for the indices
/// along the last dim one vector with ones, with their counts, or with counts times weights.
enum class OutputMode { kInt, kOneHot, kMultiHot, kCount, kTfIdf };

/// A string or an integer.
using Token = std::variant<std::int64_t, std::string>;

class Vocabulary;
using VocabularyPtr = std::shared_ptr<const Vocabulary>;

/// Distinct tokens in order, all strings or all integers. Immutable; safe from any thread.
class TDI_API Vocabulary {
 public:
  virtual ~Vocabulary();
  /// `tokens`: strings, or an int64 tensor, which are copied. Throws c10::ValueError naming tokens that are
  /// repeated, and c10::TypeError for another kind of leaf.
  static VocabularyPtr of(const Leaf& tokens);
  /// One token a line. Throws NotFoundError or SystemError for a file that cannot be read, and
  /// InvalidArgumentError naming file and line for an empty line, a repeated token, text that is not UTF-8
  /// and, with `integers`, a line that is not a 64-bit integer; also for a file without lines.
  static VocabularyPtr from_file(const std::string& path, bool integers);

  /// Number of tokens.
  virtual std::int64_t size() const = 0;
  /// The tokens as a column of one dim: Bytes, or an int64 tensor. A copy.
  virtual Leaf tokens() const = 0;
  /// Whether tokens are integers.
  virtual bool integers() const = 0;
  /// The same for equal tokens in equal order, on every machine.
  virtual std::uint64_t hash() const = 0;
};

/// A layer on a vocabulary or on fixed options. Immutable; safe from any thread.
class TDI_API Layer : public Function {
 public:
  ~Layer() override;
  /// The result for `inputs`: one leaf, or several for `hashed_crossing` and for weights. With `row_offsets`
  /// (int64, as those of `Ragged`), row i holds the items [row_offsets[i], row_offsets[i + 1]) of the first
  /// input. Throws c10::TypeError or c10::ValueError naming the layer, the rule and the value.
  virtual Leaf call(std::span<const Leaf> inputs, const at::Tensor& row_offsets) const = 0;
  /// `call` for each element: a leaf, or a tuple or list of them.
  void apply(std::span<Element> elements) const override;
};
using LayerPtr = std::shared_ptr<const Layer>;

/// How indices are written.
struct OutputOptions {
  OutputMode mode = OutputMode::kInt;
  bool sparse = false;                            ///< COO tensors instead of dense ones; not for kInt
  c10::ScalarType dtype = c10::ScalarType::Long;  ///< of the result
};

/// See `lookup`.
struct LookupOptions {
  std::int64_t num_oov_indices = 1;        ///< indices for tokens that the vocabulary does not hold
  std::optional<Token> mask_token = {};    ///< becomes index 0 in mode kInt, and nothing in the others
  Token oov_token = std::string("[UNK]");  ///< what an inverse lookup returns for other indices
  bool hash_integers = false;              ///< choose a token's OOV index by hash instead of modulo
  std::optional<std::array<std::uint64_t, 2>> salt = {};  ///< key of SipHash; unset: FarmHash
  std::optional<std::int64_t> depth = {};  ///< of vectors; unset: one more than the largest index
  at::Tensor idf_weights = {};             ///< mode kTfIdf: float32, one for each entry of a vector
  OutputOptions output = {};
};

/// Indices of tokens: 0 for the mask (if there is one and the mode is kInt), then `num_oov_indices` indices,
/// then the vocabulary in order. With `num_oov_indices` 0, `call` throws InvalidArgumentError naming tokens
/// that the vocabulary does not hold.
TDI_API LayerPtr lookup(VocabularyPtr vocabulary, LookupOptions options = {});
/// Tokens of the indices that `lookup` returns in mode kInt; `oov_token` for every other index.
TDI_API LayerPtr inverse_lookup(VocabularyPtr vocabulary, LookupOptions options = {});

/// See `text_vectorization`. kLower and kStripPunctuation change ASCII only.
enum class Standardize { kNone, kLower, kStripPunctuation, kLowerAndStripPunctuation };
/// At ASCII whitespace, or between the characters of UTF-8.
enum class Split { kNone, kWhitespace, kCharacter };

/// How text becomes tokens.
struct TextOptions {
  Standardize standardize = Standardize::kLowerAndStripPunctuation;
  Split split = Split::kWhitespace;
  std::vector<std::int64_t> ngrams = {};             ///< widths, at least 1; empty: the tokens themselves
  std::optional<std::int64_t> sequence_length = {};  ///< mode kInt: tokens a text, by cutting and padding
  bool ragged = false;                               ///< mode kInt: rows of varying length, no padding
};

/// Texts of shape [..., 1] or [...] as indices of their tokens, padded with 0 to [..., L], or as vectors.
/// `lookup.mask_token` must be "".
TDI_API LayerPtr text_vectorization(VocabularyPtr vocabulary, TextOptions text = {},
                                    LookupOptions lookup = {});

/// See `hashing`.
struct HashingOptions {
  std::int64_t num_bins = 1;
  std::optional<std::variant<double, std::string>> mask_value =
      {};                                                 ///< goes to bin 0, other values to 1, ...
  std::optional<std::array<std::uint64_t, 2>> salt = {};  ///< key of SipHash; unset: FarmHash
  OutputOptions output = {};
};

/// Bins of strings or numbers (as decimal text, floating-point ones cut to integers) by their hash.
TDI_API LayerPtr hashing(HashingOptions options);
/// Bins of the combinations of two or more inputs of one shape, by their hash. Only `num_bins` and `output`
/// count.
TDI_API LayerPtr hashed_crossing(HashingOptions options);
/// Vectors of `num_tokens` for indices; a second input weighs those of kCount. Throws InvalidArgumentError
/// for an index outside [0, num_tokens).
TDI_API LayerPtr category_encoding(std::int64_t num_tokens, OutputOptions output);
/// The number of boundaries that are at most the value, compared in float32; NaN counts as the largest.
TDI_API LayerPtr discretization(std::vector<float> boundaries, OutputOptions output);
/// (input - mean) / max(sqrt(variance), 1e-7) in float32, or with `invert` the value that this came from.
/// `mean` and `variance` are broadcast to the input.
TDI_API LayerPtr normalization(at::Tensor mean, at::Tensor variance, bool invert);

/// Tokens and how often they were seen, as parallel columns.
struct TokenCounts {
  Leaf tokens;           ///< Bytes of one dim, or int64 [N]
  at::Tensor counts;     ///< int64 [N]
  at::Tensor documents;  ///< int64 [N]: in how many documents
  std::int64_t num_documents = 0;
};

/// Counts tokens in memory for the distinct ones. One thread at a time.
class TDI_API TokenCounter {
 public:
  virtual ~TokenCounter();
  /// Counts integers, strings, or with `text` the tokens of texts. A row of a batch is a document, and so is
  /// a batch with one dim; with `text` each text is one.
  static std::unique_ptr<TokenCounter> of_integers();
  static std::unique_ptr<TokenCounter> of_strings();
  static std::unique_ptr<TokenCounter> of_texts(const TextOptions& text);

  /// Counts a batch; `row_offsets` as in `Layer::call`. Throws c10::TypeError for another kind of leaf.
  virtual void add(const Leaf& batch, const at::Tensor& row_offsets) = 0;
  /// Adds what another counter counted. Throws c10::TypeError for tokens of another kind.
  virtual void merge(const TokenCounts& other) = 0;
  /// All counts.
  virtual TokenCounts counts() const = 0;
  /// The `limit` (unset: all) most frequent tokens but for `excluded`: by count, then by token, both
  /// descending. Equal counts give the same result in whatever order they were made.
  virtual TokenCounts top(std::optional<std::int64_t> limit, const std::vector<Token>& excluded) const = 0;
  /// Number of distinct tokens.
  virtual std::int64_t size() const = 0;
  /// Number of documents.
  virtual std::int64_t num_documents() const = 0;
};

/// `text` as `text_vectorization` changes it before it splits it.
TDI_API std::string standardized(std::string_view text, Standardize standardize);

}  // namespace torch_distinput::preprocessing

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "kernels/host_memory.h"
#include "sources/source_node.h"
#include "sources/tokens/token_arguments.h"
#include "sources/tokens/token_sources.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

/// Tokens in the user's memory, which may move.
class TokensInMemory final : public StoredTokens {
 public:
  TokensInMemory(at::Tensor tokens, std::int64_t first, TokenRows rows)
      : tokens_(std::move(tokens)), first_(first), rows_(std::move(rows)) {}

  const at::Tensor& tokens() const { return tokens_; }
  std::int64_t size() const override { return rows_.size(); }
  bool blocks() const override { return false; }
  bool is_remote() const override { return false; }
  SourceRow source_row(std::int64_t position) const override { return {0, "", position}; }
  std::int64_t length(std::int64_t position) const override { return rows_[position].count; }
  void will_read(std::span<const Segment>) const override {}

  void read(std::span<const Segment> pieces, std::int64_t limit, const TakePiece& take) const override {
    const ReadGuard memory(tokens_);
    const auto item = static_cast<std::int64_t>(tokens_.element_size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::int64_t begin = rows_[pieces[i].element].begin + pieces[i].begin;
      const std::int64_t bad =
          take(i, memory.data() + (first_ + begin) * item, pieces[i].end - pieces[i].begin);
      if (bad < 0) continue;
      const std::int64_t index = first_ + begin + bad;
      throw InvalidArgumentError(std::string(kTokenDatasetName) + ": token " + std::to_string(index) +
                                 " is " +
                                 std::to_string(token_at(memory.data(), tokens_.scalar_type(), index)) +
                                 ", but tokens must be in [0, " + std::to_string(limit) + ").");
    }
  }

 private:
  at::Tensor tokens_;
  std::int64_t first_;  ///< the token at which the first document begins
  TokenRows rows_;
};

class TokensInMemoryNode final : public SourceNode {
 public:
  TokensInMemoryNode(std::shared_ptr<const TokensInMemory> tokens, const TokenOptions& options)
      : tokens_(std::move(tokens)), options_(options) {}

  std::string_view name() const override { return kTokenDatasetName; }
  std::string describe() const override {
    const at::Tensor& all = tokens_->tokens();
    const std::string first =
        "tokens=" + std::to_string(all.numel()) + ", dtype=" + dtype_name(all.scalar_type());
    return std::string(kTokenDatasetName) + "(" + token_arguments(first, options_) + ")";
  }
  SpecPtr spec() const override { return token_spec(options_.sequence_length, options_.output_dtype); }
  std::int64_t cardinality() const override { return tokens_->size(); }

  PlanPtr plan(const IterContext& context) const override {
    return token_plan(tokens_, conversion_of(options_, tokens_->tokens().scalar_type()),
                      options_.sequence_length, context.execution->pool);
  }
  IteratorPtr iterate(const IterContext& context) const override { return iterate_plan(plan(context)); }

 private:
  std::shared_ptr<const TokensInMemory> tokens_;
  TokenOptions options_;
};

/// The bounds of documents, checked.
std::vector<std::int64_t> checked_bounds(const at::Tensor& offsets, std::int64_t tokens) {
  TORCH_CHECK_VALUE(
      offsets.dim() == 1 && offsets.scalar_type() == at::kLong && offsets.numel() > 0 && offsets.is_cpu(),
      kTokenDatasetName, ": `offsets` must be int64 with one dim and at least one entry, but is ",
      to_string(spec_of(Element(offsets))), ".");
  const at::Tensor dense = offsets.contiguous();
  const auto* const data = dense.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> bounds(data, data + dense.numel());
  std::int64_t least = 0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    TORCH_CHECK_VALUE(bounds[i] >= least && bounds[i] <= tokens, kTokenDatasetName,
                      ": `offsets` must not decrease and lie in [0, ", tokens, "], but entry ", i, " is ",
                      bounds[i], " after ", least, ".");
    least = bounds[i];
  }
  return bounds;
}

/// The end of each document after each `token`.
std::vector<std::int64_t> documents_of(const at::Tensor& tokens, std::int64_t token) {
  const ReadGuard memory(tokens);
  const std::int64_t count = tokens.numel();
  std::vector<std::int64_t> ends;
  std::int64_t next = 0;
  while ((next = find_token(memory.data(), tokens.scalar_type(), next, count, token)) < count)
    ends.push_back(++next);
  if (count > 0 && (ends.empty() || ends.back() != count)) ends.push_back(count);
  return ends;
}

}  // namespace

namespace sources {

NodePtr tokens_in_memory(at::Tensor tokens, const std::optional<at::Tensor>& offsets,
                         const TokenOptions& options) {
  check_token_options(options);
  TORCH_CHECK_TYPE(tokens.defined() && tokens.is_cpu() && tokens.layout() == at::kStrided &&
                       tokens.dim() == 1 && stores_tokens(tokens.scalar_type()),
                   kTokenDatasetName, ": `tokens` must be integers in host memory with one dim, but is ",
                   to_string(spec_of(Element(tokens))), ".");
  const std::int64_t boundary = options.document_boundary.value_or(kIndexedDocuments);
  const bool by_document = options.document_boundary || !options.sequence_length;
  TORCH_CHECK_VALUE(!by_document || offsets || boundary != kIndexedDocuments, kTokenDatasetName,
                    ": documents need `offsets`, or the token that ends one as `document_boundary`.");
  TORCH_CHECK_VALUE(!offsets || boundary == kIndexedDocuments, kTokenDatasetName,
                    ": documents have bounds by `offsets` or by a token, but both are given.");
  tokens = tokens.detach().contiguous();
  guard_reads(Element(tokens));
  std::int64_t first = 0;
  std::int64_t count = tokens.numel();
  std::vector<std::int64_t> ends;
  if (offsets) {
    std::vector<std::int64_t> bounds = checked_bounds(*offsets, count);
    first = bounds.front();
    count = bounds.back() - first;
    for (std::size_t i = 1; by_document && i < bounds.size(); ++i) ends.push_back(bounds[i] - first);
  } else if (by_document) {
    ends = documents_of(tokens, boundary);
  }
  auto stored = std::make_shared<const TokensInMemory>(std::move(tokens), first,
                                                       TokenRows(count, std::move(ends), cuts_of(options)));
  return std::make_shared<TokensInMemoryNode>(std::move(stored), options);
}

}  // namespace sources
}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include "core/tensor_on.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "sources/tokens/token_source.h"

namespace torch_distinput {
namespace {

/// Columns [begin, begin + count) of `rows`, whose last dim is contiguous, sharing its memory.
at::Tensor columns_of(const at::Tensor& rows, std::int64_t begin, std::int64_t count) {
  Dims sizes = rows.sizes().vec();
  const Dims strides = rows.strides().vec();
  sizes.back() = count;
  at::Tensor view = tensor_on(rows.storage(), 0, sizes, rows.scalar_type());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, rows.storage_offset() + begin);
  return view;
}

StructurePtr pair_structure() { return Structure::tuple({Structure::leaf(), Structure::leaf()}); }

class TokenPlan final : public Plan {
 public:
  TokenPlan(std::shared_ptr<const StoredTokens> tokens, TokenConversion conversion,
            std::optional<std::int64_t> sequence_length, std::shared_ptr<BufferPool> pool)
      : tokens_(std::move(tokens)),
        conversion_(conversion),
        length_(sequence_length),
        pool_(std::move(pool)),
        structure_(pair_structure()) {}

  std::int64_t size() const override { return tokens_->size(); }
  PlanTraits traits() const override { return {.blocks = tokens_->blocks(), .remote = tokens_->is_remote()}; }
  SourceRow source_row(std::int64_t row) const override { return tokens_->source_row(row); }
  void will_read(std::span<std::int64_t> positions) const override { tokens_->will_read(whole(positions)); }
  void will_take(std::span<const Segment> segments) const override { tokens_->will_read(segments); }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> elements;
    elements.reserve(positions.size());
    read(whole(positions), [&](std::size_t, const char* tokens, std::int64_t count) {
      const at::Tensor row = pooled_tensor({&count, 1}, conversion_.to, *pool_);
      const std::int64_t bad =
          convert_tokens(conversion_, tokens, count, static_cast<char*>(row.mutable_data_ptr()));
      if (bad < 0) elements.push_back(length_ ? pair_of(row) : Element(row));
      return bad;
    });
    return elements;
  }

  bool fetches_batches() const override { return length_.has_value(); }
  Element fetch_batch(std::span<std::int64_t> positions) const override {
    const Dims sizes{static_cast<std::int64_t>(positions.size()), *length_ + 1};
    const at::Tensor rows = pooled_tensor(sizes, conversion_.to, *pool_);
    auto* const to = static_cast<char*>(rows.mutable_data_ptr());
    const auto row_bytes = sizes[1] * static_cast<std::int64_t>(rows.element_size());
    read(whole(positions), [&](std::size_t i, const char* tokens, std::int64_t count) {
      return convert_tokens(conversion_, tokens, count, to + static_cast<std::int64_t>(i) * row_bytes);
    });
    return pair_of(rows);
  }

  /// Inputs and targets have the length of sequences, where elements are no documents.
  bool knows_lengths(std::size_t) const override { return true; }
  void lengths(std::size_t, std::span<std::int64_t> positions) const override {
    for (std::int64_t& position : positions) position = length_ ? *length_ : tokens_->length(position);
  }
  /// Targets begin one token after inputs.
  void gather_pieces(std::size_t leaf, c10::ScalarType dtype, std::span<const Segment> pieces,
                     std::span<char* const> to) const override {
    TORCH_INTERNAL_ASSERT(dtype == conversion_.to, "pieces of another type");
    std::vector<Segment> shifted(pieces.begin(), pieces.end());
    for (Segment& piece : shifted) {
      piece.begin += static_cast<std::int64_t>(leaf);
      piece.end += static_cast<std::int64_t>(leaf);
    }
    read(shifted, [&](std::size_t i, const char* tokens, std::int64_t count) {
      return convert_tokens(conversion_, tokens, count, to[i]);
    });
  }

 private:
  /// All tokens of the rows at `positions`.
  std::vector<Segment> whole(std::span<const std::int64_t> positions) const {
    std::vector<Segment> pieces;
    pieces.reserve(positions.size());
    for (const std::int64_t position : positions) pieces.push_back({position, 0, tokens_->length(position)});
    return pieces;
  }
  void read(std::span<const Segment> pieces, const StoredTokens::TakePiece& take) const {
    tokens_->read(pieces, conversion_.limit.value_or(0), take);
  }
  Element pair_of(const at::Tensor& rows) const {
    return {structure_, {columns_of(rows, 0, *length_), columns_of(rows, 1, *length_)}};
  }

  std::shared_ptr<const StoredTokens> tokens_;
  TokenConversion conversion_;
  std::optional<std::int64_t> length_;
  std::shared_ptr<BufferPool> pool_;
  StructurePtr structure_;
};

}  // namespace

SpecPtr token_spec(std::optional<std::int64_t> sequence_length, c10::ScalarType dtype) {
  if (!sequence_length) {
    return std::make_shared<const ElementSpec>(
        ElementSpec{Structure::leaf(), {TensorSpec{Dims{kUnknownDim}, dtype, {}}}});
  }
  const TensorSpec part{Dims{*sequence_length}, dtype, {}};
  return std::make_shared<const ElementSpec>(ElementSpec{pair_structure(), {part, part}});
}

PlanPtr token_plan(std::shared_ptr<const StoredTokens> tokens, TokenConversion conversion,
                   std::optional<std::int64_t> sequence_length, std::shared_ptr<BufferPool> pool) {
  return std::make_shared<TokenPlan>(std::move(tokens), conversion, sequence_length, std::move(pool));
}

}  // namespace torch_distinput

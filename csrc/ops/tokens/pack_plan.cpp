// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/tokens/pack_plan.h"

#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "ops/tokens/carried_leaves.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/error.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {
namespace {

class PackPlan final : public Plan {
 public:
  PackPlan(Documents documents, PackIndexPtr index, PackArguments packing, std::shared_ptr<BufferPool> pool)
      : documents_(std::move(documents)),
        index_(std::move(index)),
        packing_(std::move(packing)),
        layout_(packing_.layout(documents_.dtype)),
        pool_(std::move(pool)) {}

  std::int64_t size() const override { return index_->size(); }
  PlanTraits traits() const override { return documents_.plan->traits(); }
  /// What travels with documents has no static shape.
  const RowLayout* layout() const override { return carries() ? nullptr : &layout_; }

  /// That of the first document of the row.
  std::string origin(std::int64_t position) const override {
    return documents_.plan->origin(pieces_of({&position, 1}).front().element);
  }

  std::vector<const Plan*> inputs() const override { return {documents_.plan.get()}; }
  std::int64_t num_source_rows() const override { return documents_.plan->num_source_rows(); }
  /// Those of all documents that have tokens in the row.
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override {
    std::vector<std::int64_t> documents;
    for (const Segment& piece : pieces_of(positions)) documents.push_back(piece.element);
    documents_.plan->source_rows(documents, rows);
  }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    write(positions, [&](std::size_t i) {
      const std::int64_t row = slots.empty() ? static_cast<std::int64_t>(i) : slots[i];
      PackedLeaves leaves{};
      for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
        leaves[leaf] = sinks[leaf].data + row * sinks[leaf].row_bytes;
      return PackedRowWriter(packing_, documents_.dtype, leaves);
    });
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    if (carries()) return fetch_whole(positions);
    std::vector<PackedRow> rows;
    rows.reserve(positions.size());
    for (std::size_t i = 0; i < positions.size(); ++i) rows.emplace_back(packing_, documents_.dtype, *pool_);
    write(positions, [&](std::size_t i) { return rows[i].writer(); });
    std::vector<Element> elements;
    elements.reserve(rows.size());
    for (PackedRow& row : rows) elements.push_back(row.take({}));
    return elements;
  }

  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    return documents_.plan->sampled(index_->documents_drawn(position));
  }
  void will_read(std::span<std::int64_t> positions) const override {
    documents_.plan->will_take(pieces_of(positions));
  }

 private:
  bool carries() const { return !packing_.options.keys.empty(); }

  /// Rows of whole documents, each with the leaves that travel with it.
  std::vector<Element> fetch_whole(std::span<const std::int64_t> rows) const {
    const std::vector<Segment> pieces = pieces_of(rows);
    check(pieces);
    std::vector<std::int64_t> positions;
    for (const Segment& piece : pieces) positions.push_back(piece.element);
    const std::vector<Element> documents = documents_.plan->fetch(positions);
    DocumentReader reader(packing_.options);
    std::vector<Element> elements;
    std::size_t next = 0;
    index_->pieces(rows, [&](std::size_t, std::span<const Segment> own) {
      PackedRow row(packing_, documents_.dtype, *pool_);
      CarriedLeaves carried(packing_);
      for (const Segment& piece : own) {
        const at::Tensor tokens = reader.tokens_of(documents[next], piece.element);
        check_whole(tokens, piece);
        add_piece({tokens, 0, tokens.numel()}, row.writer());
        carried.add(documents[next++], piece.element);
      }
      row.writer().finish();
      elements.push_back(row.take(carried.join(*pool_)));
    });
    return elements;
  }

  void check_whole(const at::Tensor& tokens, const Segment& piece) const {
    check_not_cut(packing_, tokens.numel(), piece.element);
    TORCH_CHECK_VALUE(tokens.numel() == piece.end && tokens.scalar_type() == documents_.dtype, kPackName,
                      ": document ", piece.element, " must have ", piece.end, " tokens of type ",
                      dtype_name(documents_.dtype), ", but is ", to_string(spec_of(Element(tokens))), ".");
  }

  std::vector<Segment> pieces_of(std::span<const std::int64_t> rows) const {
    std::vector<Segment> all;
    index_->pieces(rows, [&](std::size_t, std::span<const Segment> pieces) {
      all.insert(all.end(), pieces.begin(), pieces.end());
    });
    return all;
  }

  /// Writes row `rows[i]` with the writer `writer_of(i)`.
  template <class WriterOf>
  void write(std::span<const std::int64_t> rows, const WriterOf& writer_of) const {
    std::vector<Segment> all;
    std::vector<char*> to;
    index_->pieces(rows, [&](std::size_t i, std::span<const Segment> pieces) {
      PackedRowWriter row = writer_of(i);
      for (const Segment& piece : pieces) to.push_back(row.add(piece.end - piece.begin));
      row.finish();
      all.insert(all.end(), pieces.begin(), pieces.end());
    });
    check(all);
    documents_.plan->gather_pieces(documents_.leaf, documents_.dtype, all, to);
  }

  /// The index may have been made for the same documents before they changed.
  void check(std::span<const Segment> pieces) const {
    std::vector<std::int64_t> lengths;
    lengths.reserve(pieces.size());
    for (const Segment& piece : pieces) lengths.push_back(piece.element);
    documents_.plan->lengths(documents_.leaf, lengths);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].end > lengths[i])
        throw InvalidArgumentError(c10::str(kPackName, ": document ", pieces[i].element, " has ", lengths[i],
                                            " tokens, but had at least ", pieces[i].end,
                                            " when rows were planned."));
    }
  }

  Documents documents_;
  PackIndexPtr index_;
  PackArguments packing_;
  RowLayout layout_;
  std::shared_ptr<BufferPool> pool_;
};

}  // namespace

PlanPtr pack_plan(Documents documents, PackIndexPtr index, PackArguments packing,
                  std::shared_ptr<BufferPool> pool) {
  return std::make_shared<PackPlan>(std::move(documents), std::move(index), std::move(packing),
                                    std::move(pool));
}

}  // namespace torch_distinput

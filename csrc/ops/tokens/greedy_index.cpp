// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/interrupt_poll.h"
#include "ops/tokens/pack_index.h"

namespace torch_distinput {
namespace {

/// Documents between two that are remembered.
constexpr std::int64_t kStride = 64;
/// Documents whose lengths are read at once.
constexpr std::int64_t kBlock = 256 * kStride;

/// The row under construction.
struct OpenRow {
  std::int64_t row = 0;  ///< rows before it
  std::int32_t used = 0;
  std::int32_t documents = 0;

  /// Takes as much as it can of `tokens` (> 0) tokens of a document and returns how many that are.
  std::int64_t take(std::int64_t tokens, const PackArguments& packing) {
    const std::int64_t count = std::min(packing.length - used, tokens);
    used += static_cast<std::int32_t>(packing.places(count));
    ++documents;
    if (used == packing.length || documents == packing.most_documents()) *this = {row + 1};
    return count;
  }
  /// Whether it is at or before the beginning of row `other`.
  bool begins(std::int64_t other) const { return row < other || (row == other && used == 0); }
};

/// Goes through the pieces from a remembered document on.
class Walk {
 public:
  Walk(const DocumentLengths& documents, const PackArguments& packing, std::int64_t document, OpenRow at)
      : documents_(&documents), packing_(&packing), document_(document), at_(at) {}

  std::int64_t row() const { return at_.row; }
  /// The documents of which some tokens are in rows, and those before them.
  std::int64_t documents_begun() const { return document_ + (begin_ > 0 ? 1 : 0); }
  /// The next piece; nullopt at the end of the documents.
  std::optional<Segment> next() {
    for (; document_ < documents_->size(); begin_ = 0, ++document_) {
      const std::int64_t left = length() - begin_;
      if (left == 0) continue;
      const Segment piece{document_, begin_, begin_ + at_.take(left, *packing_)};
      begin_ = piece.end;
      return piece;
    }
    return std::nullopt;
  }

 private:
  std::int64_t length() {
    if (document_ < first_ || document_ >= first_ + count_) {
      first_ = document_;
      count_ = documents_->count(first_, kStride);
      documents_->read(first_, std::span(lengths_).first(static_cast<std::size_t>(count_)));
    }
    return lengths_[static_cast<std::size_t>(document_ - first_)];
  }

  const DocumentLengths* documents_;
  const PackArguments* packing_;
  std::int64_t document_;
  std::int64_t begin_ = 0;  ///< tokens of it that are in rows
  OpenRow at_;
  std::array<std::int64_t, kStride> lengths_{};  ///< of documents from `first_` on
  std::int64_t first_ = 0;
  std::int64_t count_ = 0;
};

class GreedyIndex final : public PackIndex {
 public:
  GreedyIndex(DocumentLengths documents, const PackArguments& packing)
      : documents_(std::move(documents)), packing_(packing) {
    if (documents_.size() == kEndless) return;
    const std::int64_t blocks = (documents_.size() + kBlock - 1) / kBlock;
    documents_.for_each_in_order(
        blocks, [this](std::int64_t block) { return lengths_of(block); },
        [this](const std::vector<std::int64_t>& lengths) { append(lengths); });
  }

  std::int64_t size() const override {
    if (documents_.size() == kEndless) return kEndless;
    return open_.row + (open_.used > 0 ? 1 : 0);
  }

  void pieces(std::span<const std::int64_t> rows, const TakePieces& take) const override {
    std::optional<Walk> walk;
    std::vector<Segment> own;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!walk || walk->row() != rows[i]) walk = walk_to(rows[i]);
      own.clear();
      while (walk->row() == rows[i]) {
        const std::optional<Segment> piece = walk->next();
        if (!piece) break;
        own.push_back(*piece);
      }
      take(i, own);
    }
  }

  PackFill fill() const override { return fill_; }
  std::int64_t documents_drawn(std::int64_t row) const override {
    return row == size() ? documents_.size() : walk_to(row).documents_begun();
  }

 private:
  std::vector<std::int64_t> lengths_of(std::int64_t block) const {
    const std::int64_t first = block * kBlock;
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(documents_.count(first, kBlock)));
    documents_.read(first, lengths);
    return lengths;
  }

  void append(const std::vector<std::int64_t>& lengths) const {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (i % kStride == 0) starts_.push_back(open_);
      fill_.tokens += lengths[i];
      const std::int64_t first = lengths[i] == 0 ? 0 : open_.take(lengths[i], packing_);
      if (first < lengths[i]) ++fill_.documents_cut;
      for (std::int64_t left = lengths[i] - first; left > 0;) left -= open_.take(left, packing_);
    }
  }

  /// At the beginning of row `row`.
  Walk walk_to(std::int64_t row) const {
    Walk walk = walk_from_start_before(row);
    while (walk.row() < row && walk.next()) {
    }
    return walk;
  }

  Walk walk_from_start_before(std::int64_t row) const {
    const std::lock_guard lock(mutex_);
    if (documents_.size() == kEndless) append_up_to(row);
    const auto after = std::partition_point(starts_.begin(), starts_.end(),
                                            [row](const OpenRow& start) { return start.begins(row); });
    const auto start = after - starts_.begin() - 1;
    return {documents_, packing_, start * kStride, starts_[static_cast<std::size_t>(start)]};
  }

  void append_up_to(std::int64_t row) const {
    InterruptPoll poll;
    while (starts_.empty() || open_.row <= row) {
      poll();
      append(lengths_of(std::ssize(starts_) / (kBlock / kStride)));
    }
  }

  DocumentLengths documents_;
  PackArguments packing_;
  mutable std::mutex mutex_;             ///< of what grows while documents without end are read
  mutable std::vector<OpenRow> starts_;  ///< before each `kStride`th document
  mutable OpenRow open_;                 ///< after all documents whose lengths were read
  mutable PackFill fill_;                ///< by these
};

}  // namespace

PackIndexPtr greedy_index(DocumentLengths documents, const PackArguments& packing) {
  return std::make_shared<GreedyIndex>(std::move(documents), packing);
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include <c10/util/Exception.h>

#include "core/interrupt_poll.h"
#include "core/state_reader.h"
#include "ops/tokens/best_fit.h"
#include "ops/tokens/carried_leaves.h"
#include "ops/tokens/pack_iterators.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

class BestFitPackIterator final : public Iterator {
 public:
  BestFitPackIterator(IteratorPtr input, PackArguments packing, std::shared_ptr<BufferPool> pool)
      : input_(std::move(input)),
        packing_(std::move(packing)),
        pool_(std::move(pool)),
        reader_(packing_.options) {}

  std::optional<Element> next() override {
    while (handed_out_ == rows_.size()) {
      if (!read_window()) return std::nullopt;
    }
    PackedRow row(packing_, pieces_.front().document.scalar_type(), *pool_);
    CarriedLeaves carried(packing_);
    for (const std::size_t piece : rows_[handed_out_]) {
      add_piece(pieces_[piece], row.writer());
      if (carries()) carried.add(elements_[piece], numbers_[piece]);
    }
    row.writer().finish();
    Element packed = row.take(carried.join(*pool_));
    ++handed_out_;
    return packed;
  }

  State save() const override {
    const bool in_window = handed_out_ < rows_.size();
    return State()
        .set("input", in_window ? before_ : input_->save())
        .set("rows", in_window ? static_cast<std::int64_t>(handed_out_) : 0)
        .set("read", in_window ? first_ : read_);
  }

  /// Reads the window again and packs it again.
  void load(const State& state) override {
    const StateReader saved(state, kPackName);
    const std::int64_t rows = saved.count("rows");
    const std::int64_t read = saved.count("read");
    input_->load(saved.at("input"));
    forget();
    read_ = read;
    if (rows == 0) return;
    read_window();
    TORCH_CHECK_VALUE(rows < static_cast<std::int64_t>(rows_.size()), kPackName,
                      ": the saved position is after row ", rows, " of a window, but the window has ",
                      rows_.size(), " rows.");
    handed_out_ = static_cast<std::size_t>(rows);
  }

 private:
  bool carries() const { return !packing_.options.keys.empty(); }

  void forget() {
    pieces_.clear();
    elements_.clear();
    numbers_.clear();
    rows_.clear();
    handed_out_ = 0;
  }

  /// Reads the next window and packs it. Returns false at the end of the input.
  bool read_window() {
    forget();
    before_ = input_->save();
    first_ = read_;
    InterruptPoll poll;
    while (read_ - first_ < packing_.options.window) {
      poll();
      const std::optional<Element> element = input_->next();
      if (!element) break;
      cut(reader_.tokens_of(*element, read_));
      // No document is cut then, and one without tokens is in no row.
      if (carries() && pieces_.size() > elements_.size()) {
        elements_.push_back(*element);
        numbers_.push_back(read_);
      }
      ++read_;
    }
    std::vector<std::int64_t> counts;
    counts.reserve(pieces_.size());
    for (const Piece& piece : pieces_) counts.push_back(packing_.places(piece.count));
    rows_ = best_fit_rows(counts, packing_.length, packing_.most_documents());
    return read_ > first_;
  }

  void cut(const at::Tensor& document) {
    check_not_cut(packing_, document.numel(), read_);
    for (std::int64_t begin = 0; begin < document.numel(); begin += packing_.length)
      pieces_.push_back({document, begin, std::min(packing_.length, document.numel() - begin)});
  }

  IteratorPtr input_;
  PackArguments packing_;
  std::shared_ptr<BufferPool> pool_;
  DocumentReader reader_;
  State before_;                                ///< the input's position before the window
  std::int64_t first_ = 0;                      ///< the first document of the window
  std::int64_t read_ = 0;                       ///< documents read
  std::vector<Piece> pieces_;                   ///< of the documents of the window
  std::vector<Element> elements_;               ///< that of each piece, where leaves travel with documents
  std::vector<std::int64_t> numbers_;           ///< of these documents
  std::vector<std::vector<std::size_t>> rows_;  ///< the pieces of each row
  std::size_t handed_out_ = 0;
};

}  // namespace

IteratorPtr best_fit_pack_iterator(IteratorPtr input, PackArguments packing,
                                   std::shared_ptr<BufferPool> pool) {
  return std::make_unique<BestFitPackIterator>(std::move(input), std::move(packing), std::move(pool));
}

}  // namespace torch_distinput

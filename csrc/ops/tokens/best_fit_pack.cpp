// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <c10/util/Exception.h>

#include "core/interrupt_poll.h"
#include "core/state_reader.h"
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
    for (const std::size_t piece : rows_[handed_out_]) row.add(pieces_[piece]);
    ++handed_out_;
    return row.finish();
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
  void forget() {
    pieces_.clear();
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
      cut(reader_.tokens_of(*element, read_++));
    }
    std::vector<std::int64_t> counts;
    counts.reserve(pieces_.size());
    for (const Piece& piece : pieces_) counts.push_back(piece.count);
    rows_ = best_fit_rows(counts, packing_.length, packing_.most_documents());
    return read_ > first_;
  }

  void cut(const at::Tensor& document) {
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
  std::vector<std::vector<std::size_t>> rows_;  ///< the pieces of each row
  std::size_t handed_out_ = 0;
};

}  // namespace

std::vector<std::vector<std::size_t>> best_fit_rows(const std::vector<std::int64_t>& counts,
                                                    std::int64_t length, std::int64_t most_documents) {
  std::vector<std::size_t> longest_first(counts.size());
  std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  std::vector<std::vector<std::size_t>> rows;
  std::set<std::pair<std::int64_t, std::size_t>> open;  // the room that is left in a row, and the row
  for (const std::size_t piece : longest_first) {
    const auto best = open.lower_bound({counts[piece], 0});
    std::int64_t space = length;
    std::size_t row = rows.size();
    if (best == open.end()) {
      rows.emplace_back();
    } else {
      std::tie(space, row) = *best;
      open.erase(best);
    }
    rows[row].push_back(piece);
    space -= counts[piece];
    if (space > 0 && static_cast<std::int64_t>(rows[row].size()) < most_documents) open.insert({space, row});
  }
  for (auto& row : rows) std::sort(row.begin(), row.end());
  std::sort(rows.begin(), rows.end());
  return rows;
}

IteratorPtr best_fit_pack_iterator(IteratorPtr input, PackArguments packing,
                                   std::shared_ptr<BufferPool> pool) {
  return std::make_unique<BestFitPackIterator>(std::move(input), std::move(packing), std::move(pool));
}

}  // namespace torch_distinput

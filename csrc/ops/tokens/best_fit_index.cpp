// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "core/interrupt_poll.h"
#include "ops/tokens/best_fit.h"
#include "ops/tokens/pack_index.h"

namespace torch_distinput {
namespace {

/// Pieces of packed windows that are kept, at most, unless one window has more.
constexpr std::size_t kMostPieces = std::size_t{1} << 20;
/// Documents whose windows are counted together.
constexpr std::int64_t kCountedTogether = 16384;

/// The rows of one window.
struct Window {
  std::vector<Segment> pieces;    ///< row after row
  std::vector<std::size_t> ends;  ///< of each row, in `pieces`
  std::int64_t length;            ///< of a row
};
using WindowPtr = std::shared_ptr<const Window>;

/// What is kept of windows that were counted.
struct Counted {
  std::vector<std::int64_t> rows;
  PackFill fill;

  void add(const Window& window) {
    rows.push_back(std::ssize(window.ends));
    for (const Segment& piece : window.pieces) {
      fill.tokens += piece.end - piece.begin;
      // Only the second piece of a document begins where the first row ends.
      if (piece.begin == window.length) ++fill.documents_cut;
    }
  }
};

class BestFitIndex final : public PackIndex {
 public:
  BestFitIndex(DocumentLengths documents, const PackArguments& packing)
      : documents_(std::move(documents)), packing_(packing) {
    if (documents_.size() == kEndless) return;
    const std::int64_t windows = (documents_.size() + window() - 1) / window();
    const std::int64_t together = std::max<std::int64_t>(kCountedTogether / window(), 1);
    documents_.for_each_in_order((windows + together - 1) / together,
                                 [&](std::int64_t block) {
                                   Counted counted;
                                   for (std::int64_t i = block * together;
                                        i < std::min((block + 1) * together, windows); ++i)
                                     counted.add(pack(i));
                                   return counted;
                                 },
                                 [this](const Counted& counted) {
                                   for (const std::int64_t here : counted.rows)
                                     rows_before_.push_back(rows_before_.back() + here);
                                   fill_.tokens += counted.fill.tokens;
                                   fill_.documents_cut += counted.fill.documents_cut;
                                 });
  }

  std::int64_t size() const override {
    return documents_.size() == kEndless ? kEndless : rows_before_.back();
  }

  void pieces(std::span<const std::int64_t> rows, const TakePieces& take) const override {
    Place place{-1, 0};
    WindowPtr here;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Place next = locate(rows[i]);
      if (next.window != place.window) here = get(next.window);
      place = next;
      const std::size_t begin = place.row == 0 ? 0 : here->ends[place.row - 1];
      take(i, std::span(here->pieces).subspan(begin, here->ends[place.row] - begin));
    }
  }

  PackFill fill() const override { return fill_; }
  std::int64_t documents_drawn(std::int64_t row) const override {
    if (row == size()) return documents_.size();
    const Place place = locate(row);
    return std::min((place.window + (place.row > 0 ? 1 : 0)) * window(), documents_.size());
  }

 private:
  struct Place {
    std::int64_t window;
    std::size_t row;
  };

  std::int64_t window() const { return packing_.options.window; }

  Place locate(std::int64_t row) const {
    const std::lock_guard lock(mutex_);
    if (documents_.size() == kEndless) count_up_to(row);
    const auto after = std::upper_bound(rows_before_.begin(), rows_before_.end(), row);
    return {after - rows_before_.begin() - 1, static_cast<std::size_t>(row - *(after - 1))};
  }

  void count_up_to(std::int64_t row) const {
    InterruptPoll poll;
    while (rows_before_.back() <= row) {
      poll();
      rows_before_.push_back(rows_before_.back() + std::ssize(pack(std::ssize(rows_before_) - 1).ends));
    }
  }

  Window pack(std::int64_t number) const {
    const std::int64_t first = number * window();
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(documents_.count(first, window())));
    documents_.read(first, lengths);
    std::vector<Segment> cut;
    std::vector<std::int64_t> counts;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      for (std::int64_t begin = 0; begin < lengths[i]; begin += packing_.length) {
        const std::int64_t end = std::min(begin + packing_.length, lengths[i]);
        cut.push_back({first + static_cast<std::int64_t>(i), begin, end});
        counts.push_back(packing_.places(end - begin));
      }
    }
    Window packed{{}, {}, packing_.length};
    packed.pieces.reserve(cut.size());
    for (const auto& row : best_fit_rows(counts, packing_.length, packing_.most_documents())) {
      for (const std::size_t piece : row) packed.pieces.push_back(cut[piece]);
      packed.ends.push_back(packed.pieces.size());
    }
    return packed;
  }

  WindowPtr get(std::int64_t number) const {
    if (WindowPtr found = find(number)) return found;
    auto packed = std::make_shared<const Window>(pack(number));
    const std::lock_guard lock(kept_mutex_);
    kept_.emplace_front(number, packed);
    kept_pieces_ += packed->pieces.size();
    while (kept_pieces_ > kMostPieces && kept_.size() > 1) {
      kept_pieces_ -= kept_.back().second->pieces.size();
      kept_.pop_back();
    }
    return packed;
  }

  WindowPtr find(std::int64_t number) const {
    const std::lock_guard lock(kept_mutex_);
    const auto found =
        std::find_if(kept_.begin(), kept_.end(), [&](const auto& kept) { return kept.first == number; });
    return found == kept_.end() ? nullptr : found->second;
  }

  DocumentLengths documents_;
  PackArguments packing_;
  mutable std::mutex mutex_;                          ///< of what grows while documents without end are read
  mutable std::vector<std::int64_t> rows_before_{0};  ///< each window, and all that were counted
  PackFill fill_;
  mutable std::mutex kept_mutex_;
  mutable std::deque<std::pair<std::int64_t, WindowPtr>> kept_;  ///< the windows packed last
  mutable std::size_t kept_pieces_ = 0;
};

}  // namespace

PackIndexPtr best_fit_index(DocumentLengths documents, const PackArguments& packing) {
  return std::make_shared<BestFitIndex>(std::move(documents), packing);
}

}  // namespace torch_distinput

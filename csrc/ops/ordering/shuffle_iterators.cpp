// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/ordering/shuffle_iterators.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/state_reader.h"
#include "execution/open.h"
#include "runtime/permutation.h"

namespace torch_distinput {
namespace {

constexpr const char* kShuffleIteratorsName = "shuffle";

/// A window of stage 0 whose elements have been read.
struct HeldWindow {
  std::int64_t begin;
  State before;  ///< the input's state before the first element
  std::vector<Element> elements;
  Permutation permutation;

  std::int64_t end() const { return begin + static_cast<std::int64_t>(elements.size()); }
};

class WindowedShuffleIterator final : public Iterator {
 public:
  WindowedShuffleIterator(IteratorPtr input, std::int64_t window, std::uint64_t key)
      : input_(std::move(input)), window_(window), key_(key) {}

  std::optional<Element> next() override {
    if (position_ >= shifted_end_) enter_shifted_window();
    if (position_ >= shifted_end_) return std::nullopt;
    const std::int64_t between = shifted_begin_ + shifted_(position_ - shifted_begin_);
    HeldWindow& held = between < held_.front().end() ? held_.front() : held_.back();
    ++position_;
    return std::move(held.elements[static_cast<std::size_t>(held.permutation(between - held.begin))]);
  }

  State save() const override {
    const std::int64_t first = first_needed();
    const auto held =
        std::find_if(held_.begin(), held_.end(), [&](const auto& w) { return w.begin == first; });
    return State()
        .set("position", position_)
        .set("input", held == held_.end() ? input_->save() : held->before);
  }

  void load(const State& state) override {
    const StateReader saved(state, kShuffleIteratorsName);
    position_ = saved.count("position");
    input_->load(saved.at("input"));
    held_.clear();
    read_ = first_needed();
    ended_ = false;
    shifted_begin_ = shifted_end_ = 0;
  }

 private:
  /// The start of the first stage 0 window that the element at `position_` may come from.
  std::int64_t first_needed() const {
    return WindowedPermutation::window_begin(window_, 0,
                                             WindowedPermutation::window_begin(window_, 1, position_));
  }

  /// Reads the elements of the stage 1 window at `position_`; at the end of the input the window is empty.
  void enter_shifted_window() {
    const std::int64_t first = first_needed();
    while (!held_.empty() && held_.front().begin < first) held_.pop_front();
    const std::int64_t end = WindowedPermutation::window_end(window_, 1, position_);
    while (!ended_ && read_ < end) read_window();
    shifted_begin_ = WindowedPermutation::window_begin(window_, 1, position_);
    shifted_end_ = std::max(shifted_begin_, std::min(end, read_));
    const std::uint64_t key = WindowedPermutation::window_key(key_, window_, 1, position_);
    shifted_ = Permutation(shifted_end_ - shifted_begin_, key);
  }

  void read_window() {
    State before = input_->save();
    std::vector<Element> elements;
    while (static_cast<std::int64_t>(elements.size()) < window_) {
      std::optional<Element> element = input_->next();
      if (!element) {
        ended_ = true;
        break;
      }
      elements.push_back(std::move(*element));
    }
    const std::uint64_t key = WindowedPermutation::window_key(key_, window_, 0, read_);
    const Permutation permutation(static_cast<std::int64_t>(elements.size()), key);
    held_.push_back({read_, std::move(before), std::move(elements), permutation});
    read_ = held_.back().end();
  }

  IteratorPtr input_;
  std::int64_t window_;
  std::uint64_t key_;

  std::int64_t position_ = 0;  ///< elements handed out
  std::deque<HeldWindow> held_;
  std::int64_t read_ = 0;  ///< elements read; the length of the input once `ended_`
  bool ended_ = false;

  // The stage 1 window in use.
  std::int64_t shifted_begin_ = 0;
  std::int64_t shifted_end_ = 0;
  Permutation shifted_{0, 0};
};

class BufferedShuffleIterator final : public Iterator {
 public:
  BufferedShuffleIterator(NodePtr input, const IterContext& context, OrderOfAll order_of_all)
      : input_(std::move(input)), context_(context), order_of_all_(std::move(order_of_all)) {}

  std::optional<Element> next() override {
    if (!order_) read_all();
    if (position_ == std::ssize(*order_)) return std::nullopt;
    const std::int64_t number = (*order_)[static_cast<std::size_t>(position_++)];
    return std::move(elements_[static_cast<std::size_t>(number)]);
  }

  State save() const override { return State().set("position", position_); }

  void load(const State& state) override {
    position_ = StateReader(state, kShuffleIteratorsName).count("position");
    elements_.clear();
    order_.reset();
  }

 private:
  void read_all() {
    const IteratorPtr input = open_iterator(input_, context_);
    elements_.clear();
    while (std::optional<Element> element = input->next()) elements_.push_back(std::move(*element));
    order_ = order_of_all_(std::ssize(elements_));
    TORCH_CHECK_VALUE(position_ <= std::ssize(*order_), kShuffleIteratorsName,
                      ": the saved `position` must be in [0, ", order_->size(), "], but is ", position_, ".");
  }

  NodePtr input_;
  IterContext context_;
  OrderOfAll order_of_all_;
  std::int64_t position_ = 0;
  std::vector<Element> elements_;
  std::optional<std::vector<std::int64_t>> order_;  ///< unset until all elements are read
};

}  // namespace

IteratorPtr windowed_shuffle_iterator(IteratorPtr input, std::int64_t window, std::uint64_t key) {
  return std::make_unique<WindowedShuffleIterator>(std::move(input), window, key);
}

IteratorPtr buffered_shuffle_iterator(NodePtr input, const IterContext& input_context, OrderOfAll order) {
  return std::make_unique<BufferedShuffleIterator>(std::move(input), input_context, std::move(order));
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/element_window.h"

#include <utility>

#include "core/interrupt_poll.h"
#include "distribute/splitting/cut_rows.h"
#include "kernels/rows.h"

namespace torch_distinput {

ElementWindow::ElementWindow(WindowInput input, WindowRules rules)
    : from_(std::move(input)),
      rules_(rules),
      first_(from_.upstream ? from_.upstream->element : 0),
      next_(from_.upstream) {}

template <class Read>
void ElementWindow::guarded(Read read) {
  if (error_) std::rethrow_exception(error_);
  try {
    read();
  } catch (...) {
    error_ = std::current_exception();
    throw;
  }
}

std::optional<std::int64_t> ElementWindow::rows(std::int64_t element) {
  if (element < 0) return rows_from_start(-1 - element);
  guarded([&] {
    if (!input_) start();
    while (!ended_ && element >= first_ + std::ssize(held_)) read();
  });
  if (element >= first_ + std::ssize(held_)) return std::nullopt;
  return at(element).rows;
}

std::int64_t ElementWindow::from_start(std::int64_t index) {
  const bool at_hand = !from_.upstream && index >= first_;
  return at_hand ? index : -1 - index;
}

std::optional<std::int64_t> ElementWindow::rows_from_start(std::int64_t index) {
  guarded([&] {
    if (index < std::ssize(kept_)) return;
    if (!again_) again_ = from_.open_epoch ? from_.open_epoch() : from_.open();
    InterruptPoll poll;
    while (index >= std::ssize(kept_)) {
      poll();
      auto element = again_->next();
      if (!element) return;
      const std::int64_t number = next_again_++;
      if (number < std::ssize(kept_)) continue;
      const std::int64_t rows = count_rows(*element, number, rules_.whole, rules_.cuts_leaves);
      kept_.push_back({std::move(*element), rows});
    }
  });
  if (index >= std::ssize(kept_)) return std::nullopt;
  return at(-1 - index).rows;
}

std::vector<double> ElementWindow::costs(std::span<const Segment> segments) {
  std::vector<double> costs;
  guarded([&] {
    for (const Segment& segment : segments) {
      Held& held = held_.at(static_cast<std::size_t>(segment.element - first_));
      if (held.costs.empty()) held.costs = from_.costs(held.element, {segment.element, 0, held.rows});
      costs.insert(costs.end(), held.costs.begin() + segment.begin, held.costs.begin() + segment.end);
    }
  });
  return costs;
}

void ElementWindow::start() {
  IteratorPtr input = from_.open();
  if (next_) {
    input->load(next_->state);
  } else {
    next_ = std::make_shared<const Upstream>(Upstream{0, input->save()});
  }
  input_ = std::move(input);
}

void ElementWindow::read() {
  std::optional<Element> element = input_->next();
  ended_ = !element.has_value();
  if (ended_) return;
  const std::int64_t number = next_->element;
  const std::int64_t rows = count_rows(*element, number, rules_.whole, rules_.cuts_leaves);
  auto before = std::exchange(next_, std::make_shared<const Upstream>(Upstream{number + 1, input_->save()}));
  if (!from_.upstream && number == std::ssize(kept_) && wants_to_keep()) {
    kept_.push_back({copy_rows(*element), rows});
    kept_rows_ += rows;
  }
  held_.push_back({std::move(*element), rows, std::move(before)});
}

bool ElementWindow::wants_to_keep() const {
  if (rules_.kept_rows == kFirstElement) return kept_.empty();
  return kept_rows_ < rules_.kept_rows;
}

Element ElementWindow::take(const Part& part) const {
  std::vector<Element> pieces;
  pieces.reserve(part.segments.size());
  for (const Segment& segment : part.segments)
    pieces.push_back(cut_part(at(segment.element).element, segment, part));
  if (part.filled && pieces.size() == 1) return copy_rows(pieces.front());
  return concat_rows(pieces, "distribute_dataset");
}

void ElementWindow::drop_before(std::int64_t element) {
  for (; first_ < element && !held_.empty(); ++first_) held_.pop_front();
}

const std::shared_ptr<const Upstream>& ElementWindow::upstream(std::int64_t element) const {
  return element < first_ + std::ssize(held_) ? at(element).before : next_;
}

const ElementWindow::Held& ElementWindow::at(std::int64_t element) const {
  return element < 0 ? kept_.at(static_cast<std::size_t>(-1 - element))
                     : held_.at(static_cast<std::size_t>(element - first_));
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/element_window.h"

#include <c10/util/Exception.h>

#include <utility>

#include "core/interrupt_poll.h"
#include "distribute/cut_rows.h"
#include "kernels/rows.h"

namespace torch_distinput {

ElementWindow::ElementWindow(std::function<IteratorPtr()> open, WindowRules rules,
                             std::shared_ptr<const Upstream> upstream)
    : open_(std::move(open)),
      rules_(rules),
      first_(upstream ? upstream->element : 0),
      next_(std::move(upstream)) {}

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
  if (element < first_) {
    guarded([&] { read_first(element); });
  } else {
    guarded([&] {
      if (!input_) start();
      while (!ended_ && element >= first_ + std::ssize(held_)) read();
    });
    if (element >= first_ + std::ssize(held_)) return std::nullopt;
  }
  return at(element).rows;
}

void ElementWindow::start() {
  IteratorPtr input = open_();
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
  if (number == std::ssize(kept_) && wants_to_keep()) {
    kept_.push_back({copy_rows(*element), rows});
    kept_rows_ += rows;
  }
  held_.push_back({std::move(*element), rows, std::move(before)});
}

bool ElementWindow::wants_to_keep() const {
  if (rules_.kept_rows == kFirstElement) return kept_.empty();
  return kept_rows_ < rules_.kept_rows;
}

void ElementWindow::read_first(std::int64_t element) {
  if (element < std::ssize(kept_)) return;
  const IteratorPtr input = open_();
  InterruptPoll poll;
  for (std::int64_t number = 0; number <= element; ++number) {
    poll();
    auto read = input->next();
    TORCH_CHECK(read.has_value(), "distribute_dataset: the dataset has element ", first_ - 1,
                " but ended before it when its first rows were read again.");
    if (number < std::ssize(kept_)) continue;
    const std::int64_t rows = count_rows(*read, number, rules_.whole, rules_.cuts_leaves);
    kept_.push_back({std::move(*read), rows});
  }
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
  return element < first_ ? kept_.at(static_cast<std::size_t>(element))
                          : held_.at(static_cast<std::size_t>(element - first_));
}

}  // namespace torch_distinput

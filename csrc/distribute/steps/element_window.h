// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "distribute/splitting/part.h"
#include "distribute/steps/built_step.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// `WindowRules::kept_rows`: as many rows as the first element has.
inline constexpr std::int64_t kFirstElement = -1;

/// How a window counts and keeps elements.
struct WindowRules {
  bool whole = false;          ///< parts are whole elements: one without rows counts as one row
  bool cuts_leaves = false;    ///< leaves may have different numbers of rows, the largest counts
  std::int64_t kept_rows = 0;  ///< number of first rows of the epoch to keep copies of, or `kFirstElement`
};

/// The input of a window.
struct WindowInput {
  std::function<IteratorPtr()> open;              ///< opens the input at its start
  std::shared_ptr<const Upstream> upstream = {};  ///< the position to load then; null: the start
  /// Opens the epoch at its start, if that is not the start of the input.
  std::function<IteratorPtr()> open_epoch = {};
  /// The costs of all rows of an element; empty where none are asked for.
  std::function<std::vector<double>(const Element& element, Segment rows)> costs = {};
};

/// The part of a stream that is in memory: elements that are read and not yet assigned, and copies of the
/// first ones of the epoch. Reads more elements on demand. A resumed run that has not seen the first elements
/// reads them again, under negative numbers. One thread at a time. Calls that need data throw errors of the
/// input, and throw them again later.
class ElementWindow final : public RowCounts {
 public:
  ElementWindow(WindowInput input, WindowRules rules);

  std::optional<std::int64_t> rows(std::int64_t element) override;
  std::int64_t from_start(std::int64_t index) override;
  std::vector<double> costs(std::span<const Segment> segments) override;
  /// The rows of `part`, which has at least one segment. REQUIRES: `rows` returned a number for its elements,
  /// and they were not dropped since. Throws as `cut_part` does.
  Element take(const Part& part) const;
  /// Releases the elements before `element`.
  void drop_before(std::int64_t element);
  /// The input's position before `element`; null before the first read. REQUIRES: `element` is in memory or
  /// the next one to read.
  const std::shared_ptr<const Upstream>& upstream(std::int64_t element) const;

 private:
  struct Held {
    Element element;
    std::int64_t rows;
    std::shared_ptr<const Upstream> before = {};
    std::vector<double> costs = {};  ///< of the rows; empty until they are asked for
  };

  template <class Read>
  void guarded(Read read);
  void start();
  void read();
  std::optional<std::int64_t> rows_from_start(std::int64_t index);
  bool wants_to_keep() const;
  const Held& at(std::int64_t element) const;

  WindowInput from_;
  WindowRules rules_;
  IteratorPtr input_;
  std::deque<Held> held_;
  std::int64_t first_;                    // number of the first element of held_
  std::shared_ptr<const Upstream> next_;  // before the next element to read
  bool ended_ = false;
  std::vector<Held> kept_;  // copies of the first elements of the epoch
  std::int64_t kept_rows_ = 0;
  IteratorPtr again_;            // reads them again
  std::int64_t next_again_ = 0;  // number of the element that it yields next
  std::exception_ptr error_;
};

}  // namespace torch_distinput

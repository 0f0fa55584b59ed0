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

/// How a window takes elements.
struct WindowRules {
  bool whole = false;          ///< parts are whole elements: one without rows counts as one row
  bool cuts_leaves = false;    ///< leaves that disagree are allowed, the longest one counts
  std::int64_t kept_rows = 0;  ///< how many first rows of the epoch stay at hand, or `kFirstElement`
};

/// Where a window reads.
struct WindowInput {
  std::function<IteratorPtr()> open;              ///< opens the input at its start
  std::shared_ptr<const Upstream> upstream = {};  ///< where to go from there; null: stay
  /// Opens the epoch at its start, where that is not the input's.
  std::function<IteratorPtr()> open_epoch = {};
};

/// The part of a stream that is at hand: elements read and not yet assigned, and copies of the first ones
/// of the epoch. Reads on when asked for rows beyond, and reads the first ones anew where a resumed run has
/// not seen them: their numbers are then negative. One thread at a time. An error of the input is thrown
/// again by every call that needs data.
class ElementWindow final : public RowCounts {
 public:
  ElementWindow(WindowInput input, WindowRules rules);

  std::optional<std::int64_t> rows(std::int64_t element) override;
  std::int64_t from_start(std::int64_t index) override;
  /// The rows that `part` names, at least one segment. REQUIRES: `rows` told of its elements, and they
  /// were not dropped since.
  Element take(const Part& part) const;
  /// Lets go of the elements before `element`.
  void drop_before(std::int64_t element);
  /// The input's place before `element`. REQUIRES: `element` is at hand or the next one to read.
  const std::shared_ptr<const Upstream>& upstream(std::int64_t element) const;

 private:
  struct Held {
    Element element;
    std::int64_t rows;
    std::shared_ptr<const Upstream> before = {};
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
  IteratorPtr again_;            // reads them anew
  std::int64_t next_again_ = 0;  // number of the element that it yields next
  std::exception_ptr error_;
};

}  // namespace torch_distinput

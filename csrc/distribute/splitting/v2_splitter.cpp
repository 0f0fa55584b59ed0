// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <sstream>

#include "distribute/splitting/settle.h"
#include "distribute/splitting/splitter.h"

namespace torch_distinput {
namespace {

class V2Splitter final : public Splitter {
 public:
  explicit V2Splitter(std::vector<std::int64_t> sizes)
      : sizes_(std::move(sizes)), sum_(std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0})) {}

  std::vector<Part> assign(SplitPosition& split, RowCounts& counts, std::int64_t count) const override;
  std::int64_t parts() const override { return std::ssize(sizes_); }
  std::optional<std::int64_t> round_rows() const override { return sum_; }
  std::vector<std::int64_t> shares(std::int64_t batch, std::int64_t first, std::int64_t count) const override;
  std::string describe() const override;

 private:
  static Part collect(SplitPosition& split, RowCounts& counts, std::int64_t size);

  std::vector<std::int64_t> sizes_;
  std::int64_t sum_;
};

std::vector<Part> V2Splitter::assign(SplitPosition& split, RowCounts& counts, std::int64_t count) const {
  std::vector<Part> assigned;
  assigned.reserve(static_cast<std::size_t>(count));
  SplitPosition at = split;
  while (!at.ended && std::ssize(assigned) < count) {
    const std::int64_t size = sizes_[static_cast<std::size_t>(at.part)];
    Part part = collect(at, counts, size);
    at.part = (at.part + 1) % parts();
    at.ended = part.rows < size;
    if (at.ended && part.rows == 0) break;
    assigned.push_back(std::move(part));
  }
  split = at;
  return assigned;
}

Part V2Splitter::collect(SplitPosition& split, RowCounts& counts, std::int64_t size) {
  Part part;
  while (part.rows < size) {
    const auto rows = settle(split, counts);
    if (!rows) break;
    const std::int64_t taken = std::min(size - part.rows, *rows - split.row);
    if (taken > 0) part.add({split.element, split.row, split.row + taken});
    split.row += taken;
    if (split.row == *rows) split = {.element = split.element + 1, .part = split.part};
  }
  return part;
}

std::vector<std::int64_t> V2Splitter::shares(std::int64_t, std::int64_t first, std::int64_t count) const {
  std::vector<std::int64_t> wanted(static_cast<std::size_t>(count));
  std::generate(wanted.begin(), wanted.end(),
                [&] { return sizes_[static_cast<std::size_t>(first++ % parts())]; });
  return wanted;
}

std::string V2Splitter::describe() const {
  std::ostringstream text;
  const char* separator = "v2(sizes=[";
  for (const std::int64_t size : sizes_) text << std::exchange(separator, ", ") << size;
  text << "])";
  return text.str();
}

}  // namespace

SplitterPtr v2_splitter(std::vector<std::int64_t> sizes) {
  return std::make_shared<V2Splitter>(std::move(sizes));
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/batch_reader.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "kernels/rows.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kRebatchName = "rebatch";

/// The state is the reader's (the input's state before the current batch, and the rows used of it), and the
/// index of the next size.
class RebatchIterator final : public Iterator {
 public:
  RebatchIterator(IteratorPtr input, NodePtr node, std::vector<std::int64_t> sizes, bool drop_remainder)
      : reader_(std::move(input), kRebatchName),
        node_(std::move(node)),
        sizes_(std::move(sizes)),
        drop_remainder_(drop_remainder) {}

  std::optional<Element> next() override {
    if (ended_) return std::nullopt;
    const std::int64_t size = sizes_[turn_];
    std::optional<Element> result = size == 0 ? nothing() : rows(size);
    if (result) turn_ = (turn_ + 1) % sizes_.size();
    return result;
  }

  State save() const override {
    return State()
        .set("batches", reader_.save())
        .set("turn", static_cast<std::int64_t>(turn_))
        .set("ended", ended_);
  }

  void load(const State& state) override {
    const StateReader saved(state, kRebatchName);
    turn_ = saved.index("turn", sizes_.size());
    ended_ = saved.flag("ended");
    reader_.load(saved.at("batches"));
  }

 private:
  /// Returns an element of zero rows without reading the input: with the dims of the current batch or, before
  /// the first one, of the spec. Nullopt if there is neither, which means that the input is empty.
  std::optional<Element> nothing() {
    if (reader_.has_batch()) return slice_rows(reader_.batch(), 0, 0, kRebatchName);
    const SpecPtr spec = node_->spec();
    ended_ = spec == nullptr;
    return ended_ ? std::nullopt : std::optional(zero_rows(*spec));
  }

  /// Returns the next `size` rows, fewer at the end; nullopt when none are left, or too few with
  /// `drop_remainder`.
  std::optional<Element> rows(std::int64_t size) {
    std::vector<Element> parts;
    std::int64_t missing = size;
    while (missing > 0) {
      if (reader_.rows_left() == 0) {
        ended_ = !reader_.read();
        if (ended_) break;
      }
      const std::int64_t count = std::min(missing, reader_.rows_left());
      if (count == 0) continue;
      const std::int64_t begin = reader_.advance(count);
      parts.push_back(slice_rows(reader_.batch(), begin, begin + count, kRebatchName));
      missing -= count;
    }
    if (parts.empty() || (missing > 0 && drop_remainder_)) return std::nullopt;
    return concat_rows(parts, kRebatchName);
  }

  BatchReader reader_;
  NodePtr node_;  ///< for its spec
  std::vector<std::int64_t> sizes_;
  bool drop_remainder_;
  std::size_t turn_ = 0;
  bool ended_ = false;
};

/// As tf.data's rebatch: sizes are taken in turn, batches may be split and joined, and the stream ends after
/// a short element; zero sizes that follow the last row on a border still yield empty elements. Sequential,
/// of unknown cardinality and unknown batch size, as recorded from tf.data.
class RebatchNode final : public UnaryNode {
 public:
  RebatchNode(NodePtr input, std::vector<std::int64_t> sizes, bool drop_remainder)
      : UnaryNode(std::move(input)), sizes_(std::move(sizes)), drop_remainder_(drop_remainder) {}

  std::string_view name() const override { return kRebatchName; }
  std::string describe() const override {
    std::ostringstream out;
    out << "rebatch(batch_sizes=[";
    for (std::size_t i = 0; i < sizes_.size(); ++i) out << (i == 0 ? "" : ", ") << sizes_[i];
    out << "], drop_remainder=" << (drop_remainder_ ? "True" : "False") << ')';
    return out.str();
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return rebatch(std::move(inputs.at(0)), sizes_, drop_remainder_);
  }

  SpecPtr spec() const override {
    const SpecPtr batches = input().spec();
    if (batches == nullptr) return nullptr;
    check_batch_spec(*batches, kRebatchName);
    ElementSpec spec = *batches;
    for (LeafSpec& leaf : spec.leaves) leaf = replace_dim0(leaf, static_size(leaf));
    return std::make_shared<const ElementSpec>(std::move(spec));
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  std::optional<std::int64_t> batch_size() const override { return std::nullopt; }
  Traits traits() const override { return {.sharding = {.pass_through = true}, .rows = {.batches = true}}; }

  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<RebatchIterator>(open_iterator(input_ptr(), context.input(0)), shared_from_this(),
                                             sizes_, drop_remainder_);
  }

 private:
  /// Dim 0 of the result if it is the same for every element; else `kUnknownDim`.
  std::int64_t static_size(const LeafSpec& input_leaf) const {
    const std::int64_t size = sizes_.front();
    const bool equal =
        std::all_of(sizes_.begin(), sizes_.end(), [size](std::int64_t other) { return other == size; });
    if (!equal) return kUnknownDim;
    const std::int64_t rows = dim0(input_leaf).value_or(kUnknownDim);
    const bool all_full = drop_remainder_ || (rows != kUnknownDim && rows % size == 0);
    return all_full ? size : kUnknownDim;
  }

  std::vector<std::int64_t> sizes_;
  bool drop_remainder_;
};

}  // namespace

NodePtr rebatch(NodePtr input, std::vector<std::int64_t> batch_sizes, bool drop_remainder) {
  TORCH_CHECK_VALUE(!batch_sizes.empty(), "rebatch: `batch_sizes` must not be empty.");
  for (const std::int64_t size : batch_sizes) {
    TORCH_CHECK_VALUE(size >= 0, "rebatch: `batch_sizes` must be at least 0, but one is ", size, ".");
  }
  TORCH_CHECK_VALUE(
      std::any_of(batch_sizes.begin(), batch_sizes.end(), [](std::int64_t size) { return size > 0; }),
      "rebatch: `batch_sizes` must not all be 0.");
  check_batches(*input, kRebatchName);
  return std::make_shared<RebatchNode>(std::move(input), std::move(batch_sizes), drop_remainder);
}

}  // namespace torch_distinput::ops

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "execution/unseeded.h"
#include "kernels/rows.h"
#include "ops/buffering/cache_plan.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

/// The elements of an input that can only be read in order. Safe from any thread.
class StreamMemory {
 public:
  using Rows = std::shared_ptr<const std::vector<Element>>;

  /// All elements; null until an iterator has read the input to its end.
  Rows rows() const {
    const std::lock_guard lock(mutex_);
    return rows_;
  }
  /// Keeps all elements of the input, unless another iterator has done so already.
  void keep(std::vector<Element> all) {
    const std::lock_guard lock(mutex_);
    if (rows_ == nullptr) rows_ = std::make_shared<const std::vector<Element>>(std::move(all));
  }

 private:
  mutable std::mutex mutex_;
  Rows rows_;
};

/// The parts of an IterContext that the elements of an input depend on.
struct Origin {
  std::uint64_t path = 0;
  std::uint64_t seed = 0;
};

/// The memories of one node, by its place in the graph. A new base seed replaces what was kept under another
/// one. Safe from any thread.
template <class Memory>
class Memories {
 public:
  std::shared_ptr<Memory> get(Origin origin, const std::function<std::shared_ptr<Memory>()>& make) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[origin.path];
    if (entry.memory == nullptr || entry.seed != origin.seed) entry = {origin.seed, make()};
    return entry.memory;
  }

 private:
  struct Entry {
    std::uint64_t seed = 0;
    std::shared_ptr<Memory> memory;
  };
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
};

/// The state is the number of elements handed out. After a restore the input is read again from its start,
/// which also fills the memory.
class CacheIterator final : public Iterator {
 public:
  CacheIterator(NodePtr node, const IterContext& context, std::shared_ptr<StreamMemory> memory)
      : node_(std::move(node)), context_(context), memory_(std::move(memory)) {}

  std::optional<Element> next() override {
    if (rows_ == nullptr) adopt_kept();
    if (rows_ != nullptr) return next_kept();
    if (input_ == nullptr) input_ = open_iterator(node_, context_);
    std::optional<Element> element;
    do {
      element = input_->next();
      if (!element) return finish();
      read_.push_back(copy_element(*element, *context_.execution->pool));
    } while (static_cast<std::int64_t>(read_.size()) <= position_);
    ++position_;
    return element;
  }

  State save() const override { return State().set("position", position_); }

  void load(const State& state) override {
    position_ = StateReader(state, "cache").count("position");
    rows_ = nullptr;
    input_ = nullptr;
    read_.clear();
  }

 private:
  std::optional<Element> next_kept() {
    TORCH_CHECK_VALUE(position_ <= std::ssize(*rows_), "cache: the saved `position` must be in [0, ",
                      rows_->size(), "], but is ", position_, ".");
    if (position_ == std::ssize(*rows_)) return std::nullopt;
    return copy_element((*rows_)[static_cast<std::size_t>(position_++)], *context_.execution->pool);
  }

  std::optional<Element> finish() {
    memory_->keep(std::move(read_));
    adopt_kept();
    return std::nullopt;
  }

  /// Reads from the memory from now on, if it holds all elements.
  void adopt_kept() {
    rows_ = memory_->rows();
    if (rows_ == nullptr) return;
    input_ = nullptr;
    read_.clear();
  }

  NodePtr node_;
  IterContext context_;
  std::shared_ptr<StreamMemory> memory_;
  std::int64_t position_ = 0;
  StreamMemory::Rows rows_;    ///< null while elements come from `input_`
  IteratorPtr input_;          ///< null before the first element is read
  std::vector<Element> read_;  ///< copies of the elements that `input_` has yielded
};

/// As tf.data's cache in memory, but every epoch replays the order of epoch 0, whichever was read first, so
/// that all processes and restarts agree. Elements, rows and batch sizes are the input's. Random access if
/// the input has it, filled row by row on demand; else the memory is used once an iterator has read to the
/// end.
class CacheNode final : public UnaryNode {
 public:
  explicit CacheNode(NodePtr input) : UnaryNode(std::move(input)), varies_(unseeded(this->input())) {}

  std::string_view name() const override { return "cache"; }
  std::string describe() const override { return "cache()"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return cache(std::move(inputs.at(0))); }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr rows = input().plan(first_epoch(context));
    if (rows == nullptr) return nullptr;
    check_finite(rows->size() != kEndless);
    auto memory = row_memories_.get(origin(context), [&] { return std::make_shared<RowMemory>(*rows); });
    return cache_plan(std::move(rows), std::move(memory), context.execution);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    check_finite(cardinality() != kInfiniteCardinality);
    auto memory = stream_memories_.get(origin(context), [] { return std::make_shared<StreamMemory>(); });
    return std::make_unique<CacheIterator>(input_ptr(), first_epoch(context), std::move(memory));
  }

 private:
  /// The context of epoch 0, so that the kept elements do not depend on which epoch was read first.
  static IterContext first_epoch(const IterContext& context) {
    IterContext result = context.input(0);
    result.epoch_key = epoch_context(context.execution, context.seed, 0, context.stream_only).epoch_key;
    return result;
  }

  /// The key of the memory: one for all iterators of the node, unless their elements differ.
  Origin origin(const IterContext& context) const {
    return varies_ ? Origin{context.path, context.seed} : Origin{};
  }

  static void check_finite(bool finite) {
    TORCH_CHECK_VALUE(finite,
                      "cache: the input never ends, so it cannot be kept; put `repeat` after `cache`.");
  }

  bool varies_;
  mutable Memories<RowMemory> row_memories_;
  mutable Memories<StreamMemory> stream_memories_;
};

}  // namespace

NodePtr cache(NodePtr input) { return std::make_shared<CacheNode>(std::move(input)); }

}  // namespace torch_distinput::ops

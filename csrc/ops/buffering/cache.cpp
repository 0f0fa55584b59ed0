// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "base/of_process.h"
#include "core/state_reader.h"
#include "execution/identity.h"
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

/// What tells this cache from the others of the process whose inputs look the same: in each rank that builds
/// the same pipelines, the same number.
std::int64_t number_of_call(const NodePtr& input) {
  struct Calls {
    std::mutex mutex;
    std::map<std::string, std::int64_t> counts;
  };
  static auto& calls = *new OfProcess<Calls>;
  Calls& own = calls.get();
  std::string pipeline = pipeline_identity(input).str();
  const std::lock_guard lock(own.mutex);
  return own.counts[std::move(pipeline)]++;
}

/// As tf.data's cache in memory, but every epoch replays the order of epoch 0, whichever was read first, so
/// that all processes and restarts agree. Elements, rows and batch sizes are the input's. Random access if
/// the input has it, filled row by row on demand; else the memory is used once an iterator has read to the
/// end. With `shared`, the number of the call, rows lie in memory of the job, and need random access.
class CacheNode final : public UnaryNode {
 public:
  CacheNode(NodePtr input, std::optional<std::int64_t> shared)
      : UnaryNode(std::move(input)), shared_(shared), varies_(unseeded(this->input())) {}

  std::string_view name() const override { return "cache"; }
  std::string describe() const override { return shared_ ? "cache(shared=True)" : "cache()"; }
  /// Where rows are kept changes none of them.
  std::string identity() const override { return "cache()"; }
  Traits traits() const override {
    return {
        .sharding = {.pass_through = true}, .rows = {.follows = Follows::kSame}, .order = {.keeps = true}};
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<CacheNode>(std::move(inputs.at(0)), shared_);
  }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr rows = input().plan(first_epoch(context));
    if (rows == nullptr) return nullptr;
    check_finite(rows->size() != kEndless);
    auto memory = row_memories_.get(origin(context), [&] {
      return shared_ ? RowMemory::of_job(*rows, spec()->structure, what(context))
                     : RowMemory::of_process(*rows);
    });
    return cache_plan(std::move(rows), std::move(memory), context.execution);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    check_finite(cardinality() != kInfiniteCardinality);
    TORCH_CHECK_VALUE(!shared_ || context.stream_only, "cache: `shared` needs random access, but `",
                      input().describe(), "` has none; use `cache()`, which keeps a copy in each process.");
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

  /// What the memory holds, in each rank.
  std::string what(const IterContext& context) const {
    const Origin from = origin(context);
    return "cache " + std::to_string(shared_.value()) + " " + std::to_string(from.path) + " " +
           std::to_string(from.seed) + " of " + pipeline_identity(input_ptr()).str();
  }

  static void check_finite(bool finite) {
    TORCH_CHECK_VALUE(finite,
                      "cache: the input never ends, so it cannot be kept; put `repeat` after `cache`.");
  }

  std::optional<std::int64_t> shared_;
  bool varies_;
  mutable Memories<RowMemory> row_memories_;
  mutable Memories<StreamMemory> stream_memories_;
};

}  // namespace

NodePtr cache(NodePtr input) { return std::make_shared<CacheNode>(std::move(input), std::nullopt); }

NodePtr shared_cache(NodePtr input) {
  const std::int64_t number = number_of_call(input);
  return std::make_shared<CacheNode>(std::move(input), number);
}

}  // namespace torch_distinput::ops

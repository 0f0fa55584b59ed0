// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "base/cpus.h"
#include "core/first_row.h"
#include "core/state_reader.h"
#include "execution/calls_function.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/own_threads.h"
#include "execution/skip_budget.h"
#include "execution/tells_facts.h"
#include "execution/unary_node.h"
#include "kernels/row_stack.h"
#include "kernels/rows.h"
#include "ops/functional/asked_map.h"
#include "ops/functional/dataset_function.h"
#include "ops/functional/function_runs.h"
#include "ops/functional/map_blocks.h"
#include "ops/functional/map_function.h"
#include "ops/functional/map_input.h"
#include "ops/functional/parallel_map.h"
#include "ops/functional/shard_marks.h"
#include "ops/ops.h"
#include "runtime/buffer_pool.h"
#include "runtime/executor.h"

namespace torch_distinput::ops {
namespace {

constexpr std::int64_t kMapAutomatic = -1;
/// The rows of a batch that share a block: as many as fit in the first cache of a CPU. A block of the most
/// rows costs nothing beside them.
constexpr std::int64_t kBlockBytes = std::int64_t{32} << 10;
constexpr std::int64_t kMaxRowsOfBlock = 64;
/// Elements that processes get at once on the random-access path, where so many are read.
constexpr std::int64_t kProcessBlock = 64;
/// Calls that wait or run for each process: one that it runs, and one so that it need not wait for the next.
constexpr std::int64_t kCallsOfProcess = 2;

/// Applies the function to fetched elements, or with `row_wise` to any rows of them.
class MapPlan final : public Plan {
 public:
  MapPlan(PlanPtr input, std::shared_ptr<const MapFunction> function, const MapOptions& options,
          std::int64_t calls, const IterContext& context)
      : input_(std::move(input)),
        function_(std::move(function)),
        row_wise_(options.row_wise),
        calls_(calls),
        block_(function_->runs_elsewhere() ? kProcessBlock : options.block),
        pool_(context.execution->pool) {}

  std::int64_t size() const override { return input_->size(); }

  PlanTraits traits() const override {
    PlanTraits traits = input_->traits();
    traits.runs_user_code = traits.runs_user_code || function_->runs_user_code();
    traits.num_parallel_calls = std::max(traits.num_parallel_calls, calls_);
    traits.block = std::max(traits.block, block_);
    traits.together = 1;  // a call may take far longer than to find what it is for
    return traits;
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    const std::vector<std::int64_t> numbers(positions.begin(), positions.end());
    std::vector<Element> elements = fetch_input(positions);
    function_->apply(elements, numbers);
    return elements;
  }

  /// Each row of a native function goes into the batch at once, so that its memory is still in the cache, and
  /// the allocator gives it out again for the next row.
  bool fetches_batches() const override { return shares_blocks(); }
  Element fetch_batch(std::span<std::int64_t> positions) const override {
    RowStack batch(std::ssize(positions), *pool_, "batch");
    const std::size_t most = rows_of_block();
    while (!positions.empty()) {
      const std::span<std::int64_t> here = positions.first(std::min(most, positions.size()));
      positions = positions.subspan(here.size());
      const std::vector<std::int64_t> numbers(here.begin(), here.end());
      const Element block = gather_input(here);
      for (std::int64_t i = 0; i < std::ssize(numbers); ++i) {
        Element row = take_row(block, i, "map");
        function_->apply({&row, 1}, {&numbers[static_cast<std::size_t>(i)], 1});
        batch.add(std::move(row));
      }
    }
    return batch.finish();
  }

  std::int64_t rows(std::int64_t position) const override {
    return row_wise_ ? input_->rows(position) : kUnknownRows;
  }
  std::int64_t rows_before(std::int64_t position) const override {
    return row_wise_ ? input_->rows_before(position) : kUnknownRows;
  }
  Element take_rows(std::span<const Segment> segments) const override {
    if (!row_wise_) return Plan::take_rows(segments);
    Element rows = input_->take_rows(segments);
    const std::int64_t number = segments.front().element;
    function_->apply({&rows, 1}, {&number, 1});
    return rows;
  }
  std::vector<const Plan*> inputs() const override { return {input_.get()}; }
  std::int64_t num_source_rows() const override { return input_->num_source_rows(); }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override {
    input_->source_rows(positions, rows);
  }
  void source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const override {
    row_wise_ ? input_->source_rows_of(segments, rows) : Plan::source_rows_of(segments, rows);
  }
  std::vector<std::int64_t> block_starts() const override { return input_->block_starts(); }
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    return input_->sampled(position);
  }
  void will_read(std::span<std::int64_t> positions) const override { input_->will_read(positions); }
  void will_take(std::span<const Segment> segments) const override {
    row_wise_ ? input_->will_take(segments) : Plan::will_take(segments);
  }

 private:
  /// The rows of a native function share a block, because one block a row costs as much as a short function.
  /// A user's function may keep or pickle its rows, so each of those has a block of its own.
  bool shares_blocks() const { return input_->layout() != nullptr && !function_->runs_user_code(); }

  std::size_t rows_of_block() const {
    const std::int64_t bytes = input_->least_bytes();
    const std::int64_t most = bytes == 0 ? kMaxRowsOfBlock : kBlockBytes / bytes;
    return static_cast<std::size_t>(std::clamp<std::int64_t>(most, 1, kMaxRowsOfBlock));
  }

  /// The input's elements as rows of one element. REQUIRES: `shares_blocks()`.
  Element gather_input(std::span<std::int64_t> positions) const {
    BatchBuffer block = make_batch(*input_->layout(), std::ssize(positions), *pool_);
    input_->gather(positions, {}, block.sinks);
    return std::move(block.element);
  }

  std::vector<Element> fetch_input(std::span<std::int64_t> positions) const {
    if (!shares_blocks() || positions.size() < 2) return input_->fetch(positions);
    const Element block = gather_input(positions);
    std::vector<Element> rows;
    rows.reserve(positions.size());
    for (std::int64_t row = 0; row < std::ssize(positions); ++row)
      rows.push_back(take_row(block, row, "map"));
    return rows;
  }

  PlanPtr input_;
  std::shared_ptr<const MapFunction> function_;
  bool row_wise_;
  std::int64_t calls_;
  std::int64_t block_;
  std::shared_ptr<BufferPool> pool_;
};

/// Applies the function in the consumer's thread.
class MapIterator final : public Iterator {
 public:
  MapIterator(IteratorPtr input, std::shared_ptr<const MapFunction> function, const IterContext& context)
      : input_(std::move(input)), function_(std::move(function)), budget_(context, function_->call()) {}

  std::optional<Element> next() override {
    while (std::optional<MapInput::Item> item = input_.next()) {
      try {
        function_->apply({&item->element, 1}, {&item->number, 1});
        budget_.pass();
        return std::move(item->element);
      } catch (...) {
        budget_.fail();
      }
    }
    budget_.end();
    return std::nullopt;
  }

  State save() const override {
    State state = input_.save();
    state.set("skip", budget_.save());
    return state;
  }

  void load(const State& state) override {
    budget_.load(StateReader(state, "map").at("skip"));
    input_.load(state);
  }

 private:
  MapInput input_;
  std::shared_ptr<const MapFunction> function_;
  SkipBudget budget_;
};

/// Dim 0 of all leaves if it is static and equal; else `kUnknownDim`.
std::int64_t static_rows(const ElementSpec& spec) {
  std::int64_t rows = kUnknownDim;
  for (const LeafSpec& leaf : spec.leaves) {
    const std::int64_t here = dim0(leaf).value_or(kUnknownDim);
    if (here == kUnknownDim || (rows != kUnknownDim && rows != here)) return kUnknownDim;
    rows = here;
  }
  return rows;
}

constexpr int kNotLooked = -1;

bool holds_datasets(const ElementSpec& spec) {
  return std::any_of(spec.leaves.begin(), spec.leaves.end(),
                     [](const LeafSpec& leaf) { return std::holds_alternative<DatasetSpec>(leaf); });
}

/// As tf.data's map: one result for each element, all of one structure, kinds and dtypes. The batch size is
/// unknown after it, as in tf.data; with `row_wise`, rows are known to stay. Random access if the input has
/// it, unless rows that fail are skipped. Without `element_spec`, the spec runs the function once, on the
/// first element.
class MapNode final : public UnaryNode, public CallsFunction, public OwnThreads, public TellsFacts {
 public:
  MapNode(NodePtr input, FunctionPtr function, MapOptions options)
      : UnaryNode(std::move(input)),
        function_(std::move(function)),
        options_(std::move(options)),
        runs_(function_) {}

  std::string_view name() const override { return "map"; }
  std::string describe() const override {
    const auto& calls = options_.num_parallel_calls;
    std::string text = "map(" + function_->name();
    if (calls) text += ", num_parallel_calls=" + std::to_string(*calls);
    if (runs_.asked() > 0 && !runs_.in_executor()) text += ", num_workers=" + std::to_string(runs_.asked());
    if (!options_.deterministic) text += ", deterministic=False";
    if (options_.element_spec) text += ", element_spec=" + to_string(*options_.element_spec);
    if (options_.row_wise) text += ", row_wise=True";
    return text + ")";
  }
  std::string identity() const override {
    return "map(" + function_->name() + (options_.row_wise ? ", row_wise=True)" : ")");
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return map(std::move(inputs.at(0)), function_, options_);
  }
  FunctionPtr function() const override { return function_; }
  const MapOptions& call_options() const override { return options_; }
  NodePtr with_function(FunctionPtr function) const override {
    return map(input_ptr(), std::move(function), options_);
  }

  SpecPtr spec() const override {
    return spec_.get([this] { return options_.element_spec ? declared() : probe(); });
  }
  std::optional<std::int64_t> batch_size() const override { return std::nullopt; }
  std::vector<const UserCode*> user_code() const override { return {function_.get()}; }
  Traits traits() const override {
    return {.sharding = {.pass_through = true},
            .rows = {.fallible = true, .row_wise = options_.row_wise, .follows = Follows::kEach}};
  }

  bool yields_readers() const override {
    const SpecPtr results = spec();
    if (results == nullptr || !holds_datasets(*results)) return false;
    int known = readers_.load();
    if (known == kNotLooked) {
      const std::optional<Element> first = first_result();
      known = first && holds_readers(*first) ? 1 : 0;
      readers_.store(known);
    }
    return known == 1;
  }

  PlanPtr plan(const IterContext& context) const override {
    if (context.execution->options.skip) return nullptr;
    PlanPtr elements = input().plan(context.input(0));
    if (elements == nullptr) return nullptr;
    return std::make_shared<MapPlan>(std::move(elements), function_of(context), options_, calls(), context);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    IteratorPtr elements = open_iterator(input_ptr(), context.input(0));
    auto function = function_of(context);
    if (function->calls() != nullptr) return asked_map(std::move(elements), std::move(function), context);
    if (options_.block > 1)
      return map_blocks(std::move(elements), std::move(function), options_.block, context);
    if (calls() == 0) return std::make_unique<MapIterator>(std::move(elements), std::move(function), context);
    const bool ordered = context.execution->keeps_order(options_.deterministic);
    return (ordered ? ordered_parallel_map : unordered_parallel_map)(std::move(elements), std::move(function),
                                                                     calls(), context);
  }

  std::string facts(const IterContext& /*context*/) const override {
    if (runs_.asked() == 0) return "";
    if (runs_.in_executor()) return "workers of the executor run " + function_->name();
    if (runs_.count() == 0) return "this process runs " + function_->name() + ": it may have no children";
    return std::to_string(runs_.count()) + " processes run " + function_->name();
  }

  ThreadUse work_threads(const IterContext& context) const override {
    if (calls() == 0 || options_.block > 1 || runs_.in_executor()) return {};
    if (runs_.count() > 0) return {"processes", runs_.count()};
    const std::int64_t arena = context.execution->executor->concurrency();
    return function_->runs_user_code() && arena > 0 ? ThreadUse{kMapThreads, calls()}
                                                    : ThreadUse{kArenaThreads, arena};
  }

 private:
  std::shared_ptr<const MapFunction> function_of(const IterContext& context) const {
    return std::make_shared<const MapFunction>(function_, options_, context, runs_.of(*context.execution));
  }

  /// The number of parallel calls; 0 if nothing asks for any.
  std::int64_t calls() const {
    if (const std::int64_t processes = runs_.count()) return kCallsOfProcess * processes;
    const std::int64_t asked = options_.num_parallel_calls.value_or(0);
    return asked == kMapAutomatic ? available_cpus() : asked;
  }

  SpecPtr declared() const { return std::make_shared<const ElementSpec>(*options_.element_spec); }

  std::optional<Element> first_result() const {
    Options options = this->options();
    options.prefetch = 0;
    return first_row(options, [this](const Options& with) {
      const IterContext context = epoch_context(make_execution_context(with), 0, 0, /*stream_only=*/false);
      MapIterator results(open_iterator(without_shard_marks(input_ptr()), context.input(0)),
                          std::make_shared<const MapFunction>(function_, options_, context, nullptr),
                          context);
      return results.next();
    });
  }

  /// The spec of the first result, whose dims are only expected, but for a static dim 0 that the function
  /// keeps; null if there is no result.
  SpecPtr probe() const {
    const std::optional<Element> first = first_result();
    if (!first) return nullptr;
    ElementSpec spec = probed_spec(*first);
    const SpecPtr before = input().spec();
    const std::int64_t rows = before == nullptr ? kUnknownDim : static_rows(*before);
    const ElementSpec seen = spec_of(*first);
    for (std::size_t leaf = 0; leaf < spec.leaves.size() && rows != kUnknownDim; ++leaf) {
      if (dim0(seen.leaves[leaf]) == rows) spec.leaves[leaf] = replace_dim0(spec.leaves[leaf], rows);
    }
    return std::make_shared<const ElementSpec>(std::move(spec));
  }

  FunctionPtr function_;
  MapOptions options_;
  SpecProbe spec_;
  FunctionRuns runs_;
  mutable std::atomic<int> readers_{kNotLooked};  ///< 1 if the first result holds datasets of files, else 0
};

}  // namespace

NodePtr map(NodePtr input, FunctionPtr function, MapOptions options) {
  TORCH_CHECK_VALUE(function != nullptr, "map: `function` must not be null.");
  const std::int64_t calls = options.num_parallel_calls.value_or(1);
  TORCH_CHECK_VALUE(calls >= 1 || calls == kMapAutomatic,
                    "map: `num_parallel_calls` must be at least 1, or -1 for automatic, but is ", calls, ".");
  TORCH_CHECK_VALUE(options.block >= 1, "map: `block` must be at least 1, but is ", options.block, ".");
  return std::make_shared<MapNode>(std::move(input), std::move(function), std::move(options));
}

}  // namespace torch_distinput::ops

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "base/stage.h"
#include "execution/open.h"
#include "execution/own_threads.h"
#include "execution/reading_thread.h"
#include "execution/unary_node.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr std::int64_t kPrefetchAutomatic = -1;
constexpr const char* kThread = "tdi-prefetch";
/// While the consumer uses one element, one is ready and one is being made.
constexpr std::int64_t kAutomaticDepth = 2;

/// The plan of the input, with `read_ahead` set in its traits.
class PrefetchPlan final : public Plan {
 public:
  PrefetchPlan(PlanPtr input, std::int64_t buffer_size)
      : input_(std::move(input)), buffer_size_(buffer_size) {}

  std::int64_t size() const override { return input_->size(); }
  PlanTraits traits() const override {
    PlanTraits traits = input_->traits();
    traits.read_ahead = buffer_size_;
    return traits;
  }
  std::int64_t least_bytes() const override { return input_->least_bytes(); }
  const RowLayout* layout() const override { return input_->layout(); }
  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    input_->gather(positions, slots, sinks);
  }
  void gather_batches(std::span<std::int64_t> positions, std::span<const BatchRows> batches) const override {
    input_->gather_batches(positions, batches);
  }
  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    return input_->fetch(positions);
  }
  std::int64_t rows(std::int64_t position) const override { return input_->rows(position); }
  std::int64_t rows_before(std::int64_t position) const override { return input_->rows_before(position); }
  Element take_rows(std::span<const Segment> segments) const override { return input_->take_rows(segments); }
  bool knows_lengths(std::size_t leaf) const override { return input_->knows_lengths(leaf); }
  void lengths(std::size_t leaf, std::span<std::int64_t> positions) const override {
    input_->lengths(leaf, positions);
  }
  void gather_pieces(std::size_t leaf, c10::ScalarType dtype, std::span<const Segment> pieces,
                     std::span<char* const> to) const override {
    input_->gather_pieces(leaf, dtype, pieces, to);
  }
  std::vector<const Plan*> inputs() const override { return {input_.get()}; }
  std::int64_t num_source_rows() const override { return input_->num_source_rows(); }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override {
    input_->source_rows(positions, rows);
  }
  void source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const override {
    input_->source_rows_of(segments, rows);
  }
  std::vector<std::int64_t> block_starts() const override { return input_->block_starts(); }
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    return input_->sampled(position);
  }
  void will_read(std::span<std::int64_t> positions) const override { input_->will_read(positions); }
  void will_take(std::span<const Segment> segments) const override { input_->will_take(segments); }

 private:
  PlanPtr input_;
  std::int64_t buffer_size_;
};

/// An element from the reading thread, and the input's state after it.
struct Prefetched {
  Element element;
  State after;
};

/// The state is that of the input after the element last handed out, so that it also fits the pipeline
/// without `prefetch`.
class PrefetchIterator final : public Iterator {
 public:
  PrefetchIterator(IteratorPtr input, std::int64_t buffer_size)
      : input_(std::move(input)), buffer_size_(buffer_size), position_(input_->save()) {}

  std::optional<Element> next() override {
    if (reader_ == nullptr) reader_ = start_reader();
    std::optional<Prefetched> item = reader_->pop();
    if (!item) return std::nullopt;
    position_ = std::move(item->after);
    return std::move(item->element);
  }

  State save() const override { return position_; }

  void load(const State& state) override {
    reader_.reset();
    input_->load(state);
    position_ = state;
  }

 private:
  using Reader = ReadingThread<Prefetched>;

  std::unique_ptr<Reader> start_reader() {
    const auto read = [this]() -> std::optional<Prefetched> {
      const StageScope work(Stage::kBuild);
      std::optional<Element> element = input_->next();
      if (!element) return std::nullopt;
      return Prefetched{std::move(*element), input_->save()};
    };
    return std::make_unique<Reader>(kThread, static_cast<std::size_t>(buffer_size_), read);
  }

  IteratorPtr input_;
  std::int64_t buffer_size_;
  State position_;                  ///< the input's state after the element last handed out
  std::unique_ptr<Reader> reader_;  ///< null before the first `next`; destroyed before `input_`
};

/// As tf.data's prefetch: changes no element, only speed. On the random-access path it sets the plan's
/// read-ahead; on the sequential path a thread reads up to `buffer_size` elements ahead.
class PrefetchNode final : public UnaryNode, public OwnThreads {
 public:
  PrefetchNode(NodePtr input, std::int64_t buffer_size)
      : UnaryNode(std::move(input)), buffer_size_(buffer_size) {}

  std::string_view name() const override { return "prefetch"; }
  std::string describe() const override {
    return "prefetch(buffer_size=" + std::to_string(buffer_size_) + ")";
  }
  std::string identity() const override { return ""; }
  Traits traits() const override {
    return {.sharding = {.pass_through = true}, .rows = {.row_wise = true, .follows = Follows::kSame}};
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return prefetch(std::move(inputs.at(0)), buffer_size_);
  }

  // The input gets this node's own context, so that the op changes neither positions nor random keys.
  PlanPtr plan(const IterContext& context) const override {
    PlanPtr elements = input().plan(context);
    if (elements == nullptr) return nullptr;
    // For native plans, the automatic choice is that of every plan (execution/read_ahead.h).
    if (buffer_size_ == kPrefetchAutomatic && !elements->traits().runs_user_code) return elements;
    return std::make_shared<PrefetchPlan>(std::move(elements), depth());
  }

  IteratorPtr iterate(const IterContext& context) const override {
    IteratorPtr elements = open_iterator(input_ptr(), context);
    if (buffer_size_ == 0) return elements;
    return std::make_unique<PrefetchIterator>(std::move(elements), depth());
  }

  ThreadUse work_threads(const IterContext&) const override { return input_threads(); }
  ThreadUse input_threads() const override { return {kThread, buffer_size_ == 0 ? 0 : 1}; }

 private:
  std::int64_t depth() const { return buffer_size_ == kPrefetchAutomatic ? kAutomaticDepth : buffer_size_; }

  std::int64_t buffer_size_;
};

}  // namespace

NodePtr prefetch(NodePtr input, std::int64_t buffer_size) {
  TORCH_CHECK_VALUE(buffer_size >= kPrefetchAutomatic,
                    "prefetch: `buffer_size` must be at least 0, or -1 for automatic, but is ", buffer_size,
                    ".");
  return std::make_shared<PrefetchNode>(std::move(input), buffer_size);
}

}  // namespace torch_distinput::ops

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <c10/util/Exception.h>

#include "core/interrupt_poll.h"
#include "core/state_reader.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/skip_budget.h"
#include "execution/unary_node.h"
#include "ops/batching/buckets.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kBucketByLengthName = "bucket_by_length";

/// Collects elements in buckets and hands out a bucket's batch when it is full. The state holds no elements:
/// it has the input's state before the oldest element held, and the numbers of all elements held.
class BucketIterator final : public Iterator {
 public:
  BucketIterator(IteratorPtr input, std::shared_ptr<const Buckets> buckets, SpecPtr spec,
                 const IterContext& context)
      : input_(std::move(input)),
        buckets_(std::move(buckets)),
        spec_(std::move(spec)),
        pool_(context.execution->pool),
        key_(context.rows_key()),
        held_(buckets_->options().bucket_batch_sizes.size()),
        budget_(context, buckets_->call()) {}

  std::optional<Element> next() override {
    while (!ended_) {
      State before = input_->save();
      std::optional<Element> element = input_->next();
      ended_ = !element;
      if (ended_) break;
      const std::int64_t number = read_++;
      const std::optional<std::size_t> bucket = bucket_of(*element, number);
      if (!bucket) continue;
      held_[*bucket].push_back({std::move(before), number, std::move(*element)});
      const auto size = static_cast<std::int64_t>(held_[*bucket].size());
      if (size == buckets_->options().bucket_batch_sizes[*bucket]) return hand_out(*bucket);
    }
    return remainder();
  }

  State save() const override {
    const Held* oldest = nullptr;
    State::List numbers;
    for (const std::vector<Held>& bucket : held_) {
      if (!bucket.empty() && (oldest == nullptr || bucket.front().number < oldest->number))
        oldest = &bucket.front();
      for (const Held& held : bucket) numbers.emplace_back(held.number);
    }
    State state;
    state.set("input", oldest == nullptr ? input_->save() : oldest->before);
    state.set("number", oldest == nullptr ? read_ : oldest->number);
    state.set("read", read_).set("held", std::move(numbers)).set("ended", ended_);
    return state.set("skip", budget_.save());
  }

  /// Reads the input again from the oldest element that was held.
  void load(const State& state) override {
    const StateReader saved(state, kBucketByLengthName);
    const std::int64_t read = saved.count("read");
    const std::int64_t first = saved.count("number", read);
    const std::set<std::int64_t> wanted = read_held(saved, first, read);
    const bool ended = saved.flag("ended");
    budget_.load(saved.at("skip"));
    input_->load(saved.at("input"));
    for (auto& bucket : held_) bucket.clear();
    InterruptPoll poll;
    for (read_ = first; read_ < read; ++read_) {
      poll();
      State before = input_->save();
      std::optional<Element> element = input_->next();
      TORCH_CHECK_VALUE(element, kBucketByLengthName, ": the saved position is after element ", read - 1,
                        ", but the input ended after ", read_, ".");
      if (wanted.contains(read_)) hold_again(std::move(before), std::move(*element));
    }
    ended_ = ended;
  }

 private:
  struct Held {
    State before;         ///< the input's state before the element
    std::int64_t number;  ///< of the element in the input
    Element element;
  };

  static std::set<std::int64_t> read_held(const StateReader& saved, std::int64_t first, std::int64_t read) {
    std::set<std::int64_t> numbers;
    for (const State& number : saved.list("held")) {
      const auto* held = std::get_if<std::int64_t>(&number.value());
      TORCH_CHECK_VALUE(held != nullptr && *held >= first && *held < read && numbers.insert(*held).second,
                        kBucketByLengthName, ": the saved `held` must be different integers from `number`, ",
                        first, ", to below `read`, ", read, ", but has ", brief(number), ".");
    }
    return numbers;
  }

  void hold_again(State before, Element element) {
    const std::size_t bucket = buckets_->of(element, read_, key_);
    held_[bucket].push_back({std::move(before), read_, std::move(element)});
    const std::int64_t size = buckets_->options().bucket_batch_sizes[bucket];
    TORCH_CHECK_VALUE(std::ssize(held_[bucket]) < size, kBucketByLengthName,
                      ": the saved `held` must have fewer than ", size, " elements of bucket ", bucket,
                      ", the size of its batches.");
  }

  /// Returns the bucket of `element`; nullopt if its length function fails and the element is skipped.
  std::optional<std::size_t> bucket_of(const Element& element, std::int64_t number) {
    try {
      const std::size_t bucket = buckets_->of(element, number, key_);
      budget_.pass();
      return bucket;
    } catch (...) {
      budget_.fail();
    }
    return std::nullopt;
  }

  Element hand_out(std::size_t bucket) {
    std::vector<Element> elements;
    for (Held& held : std::exchange(held_[bucket], {})) elements.push_back(std::move(held.element));
    return buckets_->batch(elements, bucket, spec_, *pool_);
  }

  /// At the end of the input: the next short batch, in the order of the buckets.
  std::optional<Element> remainder() {
    for (std::size_t bucket = 0; bucket < held_.size(); ++bucket) {
      if (buckets_->options().drop_remainder) held_[bucket].clear();
      if (!held_[bucket].empty()) return hand_out(bucket);
    }
    budget_.end();
    return std::nullopt;
  }

  IteratorPtr input_;
  std::shared_ptr<const Buckets> buckets_;
  SpecPtr spec_;
  std::shared_ptr<BufferPool> pool_;
  std::uint64_t key_;
  std::vector<std::vector<Held>> held_;  ///< for each bucket, the oldest element first
  std::int64_t read_ = 0;                ///< elements read from the input
  bool ended_ = false;                   ///< the input has ended
  SkipBudget budget_;
};

/// As tf.data's bucket_by_sequence_length: padded batches of elements of similar length, in the order in
/// which buckets fill up, then short batches. Sequential, of unknown cardinality; batches have no single
/// size.
class BucketNode final : public UnaryNode {
 public:
  BucketNode(NodePtr input, std::shared_ptr<const Buckets> buckets)
      : UnaryNode(std::move(input)), buckets_(std::move(buckets)) {}

  std::string_view name() const override { return kBucketByLengthName; }
  std::string describe() const override { return buckets_->describe(); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<BucketNode>(std::move(inputs.at(0)), buckets_);
  }

  SpecPtr spec() const override {
    const SpecPtr rows = input().spec();
    if (rows == nullptr) return nullptr;
    return std::make_shared<const ElementSpec>(buckets_->padding().batch_spec(*rows, kUnknownDim));
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  std::optional<std::int64_t> batch_size() const override { return std::nullopt; }
  std::vector<const UserCode*> user_code() const override { return {buckets_->length().get()}; }
  /// Sharding by file cannot look through the op, as in tf.data, which groups by a function here.
  Traits traits() const override { return {.rows = {.fallible = true, .batches = true}}; }

  IteratorPtr iterate(const IterContext& context) const override {
    const BucketOptions& options = buckets_->options();
    const bool needs_spec = options.pad_to_bucket_boundary && !options.padded_shapes;
    return std::make_unique<BucketIterator>(open_iterator(input_ptr(), context.input(0)), buckets_,
                                            needs_spec ? input().spec() : nullptr, context);
  }

 private:
  std::shared_ptr<const Buckets> buckets_;
};

}  // namespace

NodePtr bucket_by_length(NodePtr input, FunctionPtr length, BucketOptions options) {
  auto buckets = std::make_shared<const Buckets>(std::move(length), std::move(options));
  return std::make_shared<BucketNode>(std::move(input), std::move(buckets));
}

}  // namespace torch_distinput::ops

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/engine.h"
#include "core/skip_budget.h"
#include "kernels/rows.h"
#include "ops/open.h"
#include "ops/ops.h"
#include "ops/padding.h"
#include "ops/unary_node.h"
#include "torch_distinput/random.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kName = "bucket_by_length";

/// What the cursors of one node share.
struct Buckets {
  FunctionPtr length;
  BucketOptions options;
  Padding padding;

  std::string call() const { return "bucket_by_length(" + length->name() + ")"; }

  std::size_t of(Element element, std::int64_t number, std::uint64_t key) const {
    {
      const RowScope row(key, {&number, 1});
      length->apply({&element, 1});
    }
    const at::Tensor* answer = element.structure() == Structure::leaf()
                                   ? std::get_if<at::Tensor>(&element.leaves().front())
                                   : nullptr;
    TORCH_CHECK_TYPE(answer != nullptr && answer->dim() == 0 &&
                         c10::isIntegralType(answer->scalar_type(), /*includeBool=*/false),
                     call(), ": element ", number, ": the function must return one int scalar, but returned ",
                     to_string(spec_of(element)), ".");
    const auto size = answer->item<std::int64_t>();
    const auto& boundaries = options.bucket_boundaries;
    TORCH_CHECK_VALUE(!options.pad_to_bucket_boundary || size < boundaries.back(), call(), ": element ",
                      number, " has the length ", size,
                      ", but with `pad_to_bucket_boundary=True` lengths must be below ",
                      "the last boundary, ", boundaries.back(), ".");
    return static_cast<std::size_t>(std::upper_bound(boundaries.begin(), boundaries.end(), size) -
                                    boundaries.begin());
  }

  /// `elements` of bucket `bucket` as one batch. `spec` is theirs, null if unknown.
  Element batch(const std::vector<Element>& elements, std::size_t bucket, const SpecPtr& spec,
                BufferPool& pool) const {
    if (options.no_padding) return stack_rows(elements, pool, kName);
    std::vector<LeafPadding> rows = padding.of(elements.front().structure());
    for (std::size_t leaf = 0; leaf < rows.size() && options.pad_to_bucket_boundary; ++leaf) {
      const std::int64_t longest = options.bucket_boundaries[bucket] - 1;
      if (!rows[leaf].shape) rows[leaf].shape = static_shape(elements.front(), leaf, spec);
      for (std::int64_t& dim : *rows[leaf].shape) dim = dim == kUnknownDim ? longest : dim;
    }
    return pad_rows(elements, rows, pool, kName);
  }

 private:
  /// The dims of a leaf as its spec knows them.
  static Dims static_shape(const Element& element, std::size_t leaf, const SpecPtr& spec) {
    if (spec != nullptr) {
      const auto* tensor = std::get_if<TensorSpec>(&spec->leaves[leaf]);
      if (tensor != nullptr && tensor->shape) return *tensor->shape;
    }
    return Dims(static_cast<std::size_t>(element.tensor(leaf).dim()), kUnknownDim);
  }
};

class BucketCursor final : public Iterator {
 public:
  BucketCursor(IteratorPtr input, std::shared_ptr<const Buckets> buckets, SpecPtr spec,
               const IterContext& context)
      : input_(std::move(input)),
        buckets_(std::move(buckets)),
        spec_(std::move(spec)),
        pool_(context.engine->pool),
        key_(context.key({}, /*every_epoch=*/true)),
        held_(buckets_->options.bucket_batch_sizes.size()),
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
      if (size == buckets_->options.bucket_batch_sizes[*bucket]) return hand_out(*bucket);
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

  /// Reads again from the oldest element that was held.
  void load(const State& state) override {
    input_->load(state.at("input"));
    std::set<std::int64_t> wanted;
    for (const State& number : state.at("held").as_list()) wanted.insert(number.as_int());
    for (auto& bucket : held_) bucket.clear();
    const std::int64_t read = state.at("read").as_int();
    for (read_ = state.at("number").as_int(); read_ < read; ++read_) {
      State before = input_->save();
      std::optional<Element> element = input_->next();
      TORCH_CHECK_VALUE(element, kName, ": the saved position is behind element ", read - 1,
                        ", but the input ended after ", read_, ".");
      if (!wanted.contains(read_)) continue;
      const std::size_t bucket = buckets_->of(*element, read_, key_);
      held_[bucket].push_back({std::move(before), read_, std::move(*element)});
    }
    ended_ = state.at("ended").as_bool();
    budget_.load(state.at("skip"));
  }

 private:
  struct Held {
    State before;  ///< the input's position before it
    std::int64_t number;
    Element element;
  };

  /// Nullopt for an element that fails and is skipped.
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

  /// What is left at the end, a bucket after the other.
  std::optional<Element> remainder() {
    for (std::size_t bucket = 0; bucket < held_.size(); ++bucket) {
      if (buckets_->options.drop_remainder) held_[bucket].clear();
      if (!held_[bucket].empty()) return hand_out(bucket);
    }
    return std::nullopt;
  }

  IteratorPtr input_;
  std::shared_ptr<const Buckets> buckets_;
  SpecPtr spec_;
  std::shared_ptr<BufferPool> pool_;
  std::uint64_t key_;
  std::vector<std::vector<Held>> held_;  ///< by bucket, oldest first
  std::int64_t read_ = 0;                ///< elements of the input
  bool ended_ = false;                   ///< the input
  SkipBudget budget_;
};

std::string list(const std::vector<std::int64_t>& values) {
  std::ostringstream out;
  const char* separator = "[";
  for (const std::int64_t value : values) out << std::exchange(separator, ", ") << value;
  out << (values.empty() ? "[]" : "]");
  return out.str();
}

class BucketNode final : public UnaryNode {
 public:
  BucketNode(NodePtr input, FunctionPtr length, BucketOptions options)
      : UnaryNode(std::move(input)),
        buckets_(std::make_shared<const Buckets>(Buckets{
            std::move(length), options, Padding(options.padded_shapes, options.padding_values, kName)})) {}

  std::string_view name() const override { return kName; }
  std::string describe() const override {
    const BucketOptions& options = buckets_->options;
    std::string text = "bucket_by_length(" + buckets_->length->name() +
                       ", bucket_boundaries=" + list(options.bucket_boundaries) +
                       ", bucket_batch_sizes=" + list(options.bucket_batch_sizes) +
                       buckets_->padding.describe();
    if (options.pad_to_bucket_boundary) text += ", pad_to_bucket_boundary=True";
    if (options.drop_remainder) text += ", drop_remainder=True";
    if (options.no_padding) text += ", no_padding=True";
    return text + ")";
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return bucket_by_length(std::move(inputs.at(0)), buckets_->length, buckets_->options);
  }

  SpecPtr spec() const override {
    const SpecPtr rows = input().spec();
    if (rows == nullptr) return nullptr;
    return std::make_shared<const ElementSpec>(buckets_->padding.batch_spec(*rows, kUnknownDim));
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  std::optional<std::int64_t> batch_size() const override { return std::nullopt; }
  Traits traits() const override { return {.fallible = true, .batches = true}; }

  IteratorPtr iterate(const IterContext& context) const override {
    const bool needs_spec = buckets_->options.pad_to_bucket_boundary && !buckets_->options.padded_shapes;
    return std::make_unique<BucketCursor>(open_iterator(input_ptr(), context.input(0)), buckets_,
                                          needs_spec ? input().spec() : nullptr, context);
  }

 private:
  std::shared_ptr<const Buckets> buckets_;
};

void check(const BucketOptions& options) {
  const auto& boundaries = options.bucket_boundaries;
  const auto& sizes = options.bucket_batch_sizes;
  TORCH_CHECK_VALUE(!boundaries.empty(), kName, ": `bucket_boundaries` must not be empty.");
  const bool increasing =
      std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) == boundaries.end();
  TORCH_CHECK_VALUE(increasing && boundaries.front() >= 1, kName,
                    ": `bucket_boundaries` must be increasing numbers of at least 1, but is ",
                    list(boundaries), ".");
  TORCH_CHECK_VALUE(sizes.size() == boundaries.size() + 1, kName,
                    ": `bucket_batch_sizes` must have one entry more than `bucket_boundaries`, ",
                    boundaries.size() + 1, ", but has ", sizes.size(), ".");
  TORCH_CHECK_VALUE(std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size >= 1; }),
                    kName, ": `bucket_batch_sizes` must be at least 1, but is ", list(sizes), ".");
  TORCH_CHECK_VALUE(!options.no_padding || (!options.padded_shapes && !options.pad_to_bucket_boundary), kName,
                    ": `no_padding=True` excludes `padded_shapes` and `pad_to_bucket_boundary`.");
}

}  // namespace

NodePtr bucket_by_length(NodePtr input, FunctionPtr length, BucketOptions options) {
  TORCH_CHECK_VALUE(length != nullptr, kName, ": `length` must not be null.");
  check(options);
  return std::make_shared<BucketNode>(std::move(input), std::move(length), std::move(options));
}

}  // namespace torch_distinput::ops

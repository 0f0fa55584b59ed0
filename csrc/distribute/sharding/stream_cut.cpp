// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/stream_cut.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "distribute/sharding/change_inputs.h"
#include "distribute/sharding/shard_names.h"
#include "execution/execution_context.h"
#include "execution/scheduled_batches.h"
#include "ops/ops.h"

namespace torch_distinput {
namespace {

/// Some for each of hundreds of ranks, so that these end about together.
constexpr std::int64_t kMostStreams = 1024;
/// From here on, files are cut even where their records have random access: nobody indexes all of them then.
constexpr std::int64_t kManyFiles = 64;
/// Windows of ops above the cut need some elements each.
constexpr std::int64_t kLeastElements = 16;

/// Whether an op passes on one result for each element, which depends on nothing else.
bool is_function(const Traits& op) {
  const bool each = op.rows.row_wise || (op.rows.follows == Follows::kEach && op.rows.fallible);
  return op.sharding.pass_through && each && !op.order.random && !op.order.counts;
}

/// Whether a stream of the op's results may be made of parts of its inputs.
bool may_be_cut_below(const Node& node) {
  const Traits op = node.traits();
  if (op.order.counts || op.sharding.hint || op.sharding.aligns) return false;
  return op.sharding.pass_through || op.order.mixes;
}

/// Whether each rank can read the rows of its own parts, and only those.
bool knows_rows(const Plan& plan) { return plan.size() == 0 || plan.rows(0) != kUnknownRows; }

/// The files of the source below `node`, if only functions of its records lie between; -1: there is none, or
/// their number is not known.
std::int64_t files_below(const Node& node) {
  const auto inputs = node.inputs();
  if (takes_files(node)) return inputs.at(0)->cardinality();
  return inputs.size() == 1 && is_function(node.traits()) ? files_below(*inputs.front()) : -1;
}

/// Finds the places in which a pipeline is cut.
class Finder {
 public:
  explicit Finder(const Options& options)
      : context_(epoch_context(make_execution_context(options), 0, 0, /*stream_only=*/false)) {}

  /// Whether ranks read rows of `node` by position.
  bool has_random_access(const Node& node) const {
    const PlanPtr plan = node.plan(context_);
    return plan != nullptr && knows_rows(*plan);
  }

  /// Why `node` cannot be cut; nullopt: it is, in `places`. `least`: elements that a stream should have.
  std::optional<std::string> look(const Node& node, std::int64_t least) {
    const std::int64_t files = files_below(node);
    if (files < kManyFiles) {
      const PlanPtr plan = node.plan(context_);
      if (plan != nullptr && plan->size() != kEndless) return cut(node, plan->size(), plan->size() / least);
    }
    if (files >= 0 && takes_files(node)) return cut(node, -1, files);
    const auto inputs = node.inputs();
    if (inputs.empty() || !may_be_cut_below(node)) return node.describe() + " needs all elements in order";
    if (node.traits().sharding.expands) least = 1;
    for (const NodePtr& input : inputs) {
      if (auto reason = look(*input, least)) return reason;
    }
    return std::nullopt;
  }

  std::vector<StreamCut::Place> places = {};
  std::int64_t most = kMostStreams;

 private:
  std::optional<std::string> cut(const Node& node, std::int64_t elements, std::int64_t streams) {
    places.push_back({&node, elements});
    most = std::min(most, streams);
    if (most >= 2) return std::nullopt;
    return node.describe() + (elements < 0 ? " reads a single file" : " has too few elements");
  }

  IterContext context_;
};

/// The first of `elements` elements in stream `stream` of `count`, whose ranges differ by at most one.
std::int64_t begin_of(std::int64_t elements, std::int64_t stream, std::int64_t count) {
  return stream * (elements / count) + std::min(stream, elements % count);
}

/// The elements of `node` in stream `stream` of `count`.
NodePtr range_of(const NodePtr& node, std::int64_t elements, std::int64_t stream, std::int64_t count) {
  const std::int64_t begin = begin_of(elements, stream, count);
  return ops::take(ops::skip(node, begin), begin_of(elements, stream + 1, count) - begin);
}

/// The elements of a reader of files, in order: to count its records, or to find one of them, it would read
/// all of them once more.
class InOrder final : public Node {
 public:
  explicit InOrder(NodePtr reader) : reader_(std::move(reader)) {}

  std::string_view name() const override { return reader_->name(); }
  std::string describe() const override { return reader_->describe(); }
  std::vector<NodePtr> inputs() const override { return {}; }
  NodePtr with_inputs(std::vector<NodePtr>) const override { return shared_from_this(); }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  SpecPtr spec() const override { return reader_->spec(); }
  Traits traits() const override { return reader_->traits(); }
  Options options() const override { return reader_->options(); }
  IteratorPtr iterate(const IterContext& context) const override {
    IterContext in_order = context;
    in_order.stream_only = true;
    return reader_->iterate(in_order);
  }

 private:
  NodePtr reader_;
};

}  // namespace

const StreamCut::Place* StreamCut::place_of(const Node& node) const {
  const auto place =
      std::find_if(places_.begin(), places_.end(), [&](const Place& at) { return at.node == &node; });
  return place == places_.end() ? nullptr : &*place;
}

NodePtr StreamCut::stream(std::int64_t stream, std::int64_t count) const {
  const auto part = [&](const auto& self, const NodePtr& node) -> NodePtr {
    if (node->traits().sharding.asserts_size) return self(self, node->inputs().at(0));
    const Place* const place = place_of(*node);
    if (place == nullptr) return change_inputs(node, [&](const NodePtr& input) { return self(self, input); });
    if (place->elements >= 0) return range_of(node, place->elements, stream, count);
    return std::make_shared<const InOrder>(
        change_inputs(node, [&](const NodePtr& names) { return shard_names(names, count, stream); }));
  };
  return part(part, node_);
}

NodePtr StreamCut::uncounted() const {
  const auto part = [&](const auto& self, const NodePtr& node) -> NodePtr {
    const Place* const place = place_of(*node);
    if (place != nullptr) return place->elements >= 0 ? node : std::make_shared<const InOrder>(node);
    return change_inputs(node, [&](const NodePtr& input) { return self(self, input); });
  };
  return part(part, node_);
}

std::vector<std::int64_t> StreamCut::sampled_before(std::int64_t stream, std::int64_t count,
                                                    const IterContext& context) const {
  using Counts = std::vector<std::int64_t>;
  const auto below = [&](const auto& self, const NodePtr& node, const IterContext& at) -> Counts {
    const std::vector<NodePtr> inputs = node->inputs();
    if (node->traits().sharding.asserts_size) return self(self, inputs.at(0), at);
    if (const Place* const place = place_of(*node)) {
      // A stream takes and skips there, so that the node is two ops further from its end.
      const PlanPtr plan = place->elements >= 0 ? node->plan(at.input(0).input(0)) : nullptr;
      return plan == nullptr ? Counts{} : plan->sampled(begin_of(place->elements, stream, count));
    }
    if (node->traits().order.mixes) return {};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (auto counts = self(self, inputs[i], at.input(i)); !counts.empty()) return counts;
    }
    return {};
  };
  return below(below, node_, context);
}

std::string StreamCut::describe() const {
  std::string text;
  for (const Place& place : places_) {
    if (!text.empty()) text += ", ";
    text += place.elements < 0 ? "files of " : "elements of ";
    text += place.node->name();
  }
  return text;
}

bool StreamCut::by_files() const {
  return std::any_of(places_.begin(), places_.end(), [](const Place& place) { return place.elements < 0; });
}

const Node* last_batch(const Node& node) {
  if (const auto* batches = dynamic_cast<const SchedulesBatches*>(&node))
    return batches->changing_sizes() == nullptr ? &node : nullptr;
  const auto inputs = node.inputs();
  return inputs.size() == 1 && is_function(node.traits()) ? last_batch(*inputs.front()) : nullptr;
}

std::variant<StreamCutPtr, std::string> cut_streams(const NodePtr& node) {
  const Node* const batch = last_batch(*node);
  if (batch == nullptr)
    return "its elements are not batches of one size with nothing but functions of a batch after them";
  const NodePtr rows = batch->inputs().at(0);
  Finder finder(node->options());
  if (files_below(*rows) < kManyFiles && finder.has_random_access(*node))
    return "it has random access, so that each rank reads only its rows";
  if (auto reason = finder.look(*rows, kLeastElements)) return *std::move(reason);
  return std::make_shared<const StreamCut>(rows, std::move(finder.places), finder.most);
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/parts_node.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/state_reader.h"
#include "distribute/steps/element_window.h"
#include "distribute/steps/zero_part.h"
#include "execution/open.h"

namespace torch_distinput {
namespace {

class PartsIterator final : public Iterator {
 public:
  PartsIterator(RowAssignment assignment, SpecPtr spec, IterContext context)
      : assignment_(std::move(assignment)), spec_(std::move(spec)), context_(std::move(context)) {
    go_to({}, 0, nullptr);
  }

  std::optional<Element> next() override {
    while (true) {
      const std::vector<Part> assigned = assignment_.splitter->assign(split_, *window_, 1);
      if (assigned.empty()) return std::nullopt;
      const std::int64_t place = number_++ % assignment_.width;
      std::optional<Element> part;
      if (is_local(place)) part = fetch(assigned.front());
      window_->drop_before(split_.element);
      if (part) return part;
    }
  }

  State save() const override {
    State state;
    state.set("element", split_.element);
    state.set("row", split_.row);
    state.set("part", split_.part);
    state.set("part_rows", split_.part_rows);
    state.set("ended", split_.ended);
    state.set("number", number_);
    if (const auto upstream = window_->upstream(split_.element)) state.set("input", upstream->state);
    return state;
  }

  void load(const State& state) override {
    const StateReader saved(state, "parts");
    const SplitPosition split{.element = saved.count("element"),
                              .row = saved.count("row"),
                              .part = saved.count("part", assignment_.splitter->parts() - 1),
                              .part_rows = saved.count("part_rows"),
                              .ended = saved.flag("ended")};
    std::shared_ptr<const Upstream> upstream;
    if (saved.has("input")) {
      upstream = std::make_shared<const Upstream>(Upstream{split.element, saved.at("input")});
    }
    go_to(split, saved.count("number"), std::move(upstream));
  }

 private:
  /// REQUIRES: `upstream` is the input's position at `split`, or null if that is its start.
  void go_to(const SplitPosition& split, std::int64_t number, std::shared_ptr<const Upstream> upstream) {
    split_ = split;
    number_ = number;
    const WindowRules rules{.whole = assignment_.whole, .cuts_leaves = assignment_.splitter->cuts_leaves()};
    const auto open = [node = assignment_.node, context = assignment_.context_of_stream(context_.input(0))] {
      return open_iterator(node, context);
    };
    window_ =
        std::make_unique<ElementWindow>(WindowInput{.open = open, .upstream = std::move(upstream)}, rules);
  }

  bool is_local(std::int64_t place) const {
    return std::find(assignment_.local.begin(), assignment_.local.end(), place) != assignment_.local.end();
  }

  Element fetch(const Part& part) const {
    return part.segments.empty() ? zero_part(spec_, *assignment_.node) : window_->take(part);
  }

  RowAssignment assignment_;
  SpecPtr spec_;  ///< of the parts; null: unknown, as this rank's own data may be too little to know it
  IterContext context_;
  SplitPosition split_;
  std::int64_t number_ = 0;  // parts assigned before, local or not
  std::unique_ptr<ElementWindow> window_;
};

class PartsNode final : public Node {
 public:
  PartsNode(RowAssignment assignment, SpecPtr spec)
      : assignment_(std::move(assignment)), spec_(std::move(spec)) {}

  std::string_view name() const override { return "parts"; }
  std::string describe() const override {
    std::string text = "parts(" + assignment_.splitter->describe();
    if (std::ssize(assignment_.local) < assignment_.width) {
      text += ", rank=" + std::to_string(assignment_.replicas.rank) + " of " +
              std::to_string(assignment_.replicas.ranks);
    }
    return text + ")";
  }
  std::vector<NodePtr> inputs() const override { return {assignment_.node}; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    RowAssignment assignment = assignment_;
    assignment.node = std::move(inputs.at(0));
    return parts_node(std::move(assignment), spec_);
  }

  SpecPtr spec() const override { return spec_; }
  std::int64_t cardinality() const override {
    const std::int64_t elements = assignment_.node->cardinality();
    if (elements < 0) return elements;
    if (assignment_.splitter->round_rows()) return kUnknownCardinality;
    return elements * assignment_.splitter->parts() / assignment_.width * std::ssize(assignment_.local);
  }
  Traits traits() const override { return {.rows = {.batches = true}}; }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<PartsIterator>(assignment_, spec_, context);
  }

 private:
  RowAssignment assignment_;
  SpecPtr spec_;
};

}  // namespace

NodePtr parts_node(RowAssignment assignment, SpecPtr spec) {
  return std::make_shared<PartsNode>(std::move(assignment), std::move(spec));
}

}  // namespace torch_distinput

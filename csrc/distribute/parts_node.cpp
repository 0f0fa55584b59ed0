// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/parts_node.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/state_reader.h"
#include "distribute/element_window.h"
#include "distribute/zero_part.h"
#include "ops/open.h"

namespace torch_distinput {
namespace {

class PartsCursor final : public Iterator {
 public:
  PartsCursor(Dealing dealing, SpecPtr spec, IterContext context)
      : dealing_(std::move(dealing)), spec_(std::move(spec)), context_(std::move(context)) {
    go_to({}, 0, nullptr);
  }

  std::optional<Element> next() override {
    while (true) {
      const std::vector<Part> dealt = dealing_.splitter->deal(cursor_, *window_, 1);
      if (dealt.empty()) return std::nullopt;
      const std::int64_t place = number_++ % dealing_.width;
      std::optional<Element> part;
      if (is_local(place)) part = fetch(dealt.front());
      window_->drop_before(cursor_.element);
      if (part) return part;
    }
  }

  State save() const override {
    State state;
    state.set("element", cursor_.element);
    state.set("row", cursor_.row);
    state.set("part", cursor_.part);
    state.set("part_rows", cursor_.part_rows);
    state.set("ended", cursor_.ended);
    state.set("number", number_);
    if (const auto upstream = window_->upstream(cursor_.element)) state.set("input", upstream->state);
    return state;
  }

  void load(const State& state) override {
    const StateReader saved(state, "parts");
    const SplitCursor cursor{.element = saved.count("element"),
                             .row = saved.count("row"),
                             .part = saved.count("part", dealing_.splitter->parts() - 1),
                             .part_rows = saved.count("part_rows"),
                             .ended = saved.flag("ended")};
    std::shared_ptr<const Upstream> upstream;
    if (saved.has("input")) {
      upstream = std::make_shared<const Upstream>(Upstream{cursor.element, saved.at("input")});
    }
    go_to(cursor, saved.count("number"), std::move(upstream));
  }

 private:
  /// REQUIRES: `upstream` is the input's place at `cursor`, or null where that is its start.
  void go_to(const SplitCursor& cursor, std::int64_t number, std::shared_ptr<const Upstream> upstream) {
    cursor_ = cursor;
    number_ = number;
    const WindowRules rules{.whole = dealing_.whole, .cuts_leaves = dealing_.splitter->cuts_leaves()};
    const auto open = [node = dealing_.node, context = dealing_.context_of_stream(context_.input(0))] {
      return open_iterator(node, context);
    };
    window_ =
        std::make_unique<ElementWindow>(WindowInput{.open = open, .upstream = std::move(upstream)}, rules);
  }

  bool is_local(std::int64_t place) const {
    return std::find(dealing_.local.begin(), dealing_.local.end(), place) != dealing_.local.end();
  }

  Element fetch(const Part& part) const {
    return part.segments.empty() ? zero_part(spec_, *dealing_.node) : window_->take(part);
  }

  Dealing dealing_;
  SpecPtr spec_;  ///< of the parts, null if unknown: this worker's own data may be too little to tell
  IterContext context_;
  SplitCursor cursor_;
  std::int64_t number_ = 0;  // parts dealt before, local or not
  std::unique_ptr<ElementWindow> window_;
};

class PartsNode final : public Node {
 public:
  PartsNode(Dealing dealing, SpecPtr spec) : dealing_(std::move(dealing)), spec_(std::move(spec)) {}

  std::string_view name() const override { return "parts"; }
  std::string describe() const override {
    std::string text = "parts(" + dealing_.splitter->describe();
    if (std::ssize(dealing_.local) < dealing_.width) {
      text += ", worker=" + std::to_string(dealing_.replicas.worker) + " of " +
              std::to_string(dealing_.replicas.workers);
    }
    return text + ")";
  }
  std::vector<NodePtr> inputs() const override { return {dealing_.node}; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    Dealing dealing = dealing_;
    dealing.node = std::move(inputs.at(0));
    return parts_node(std::move(dealing), spec_);
  }

  SpecPtr spec() const override { return spec_; }
  std::int64_t cardinality() const override {
    const std::int64_t elements = dealing_.node->cardinality();
    if (elements < 0) return elements;
    if (dealing_.splitter->round_rows()) return kUnknownCardinality;
    return elements * dealing_.splitter->parts() / dealing_.width * std::ssize(dealing_.local);
  }
  Traits traits() const override { return {.batches = true}; }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<PartsCursor>(dealing_, spec_, context);
  }

 private:
  Dealing dealing_;
  SpecPtr spec_;
};

}  // namespace

NodePtr parts_node(Dealing dealing, SpecPtr spec) {
  return std::make_shared<PartsNode>(std::move(dealing), std::move(spec));
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/checkpoint/resumed_streams_node.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/interrupt_poll.h"
#include "core/state_reader.h"
#include "distribute/splitting/cut_rows.h"
#include "execution/open.h"

namespace torch_distinput {
namespace {

/// The state of a plan iterator whose next row is `position.row`.
State plan_state(const StepPosition& position) {
  return State()
      .set("path", "random access")
      .set("position", position.split.element)
      .set("row", position.row);
}

State place(std::int64_t stream, std::int64_t element) {
  return State().set("stream", stream).set("element", element);
}

class ResumedStreamsIterator final : public Iterator {
 public:
  ResumedStreamsIterator(std::vector<ResumedStream> streams, Share share, IterContext context)
      : streams_(std::move(streams)), share_(share), context_(std::move(context)) {}

  std::optional<Element> next() override {
    for (; stream_ < streams_.size(); ++stream_, element_ = 0, input_ = nullptr) {
      if (!input_) open();
      InterruptPoll poll;
      while (auto element = input_->next()) {
        poll();
        std::optional<Element> left = without_delivered(*std::move(element));
        if (left && element_++ % share_.of == share_.index) return left;
      }
    }
    return std::nullopt;
  }

  State save() const override {
    State state = place(static_cast<std::int64_t>(stream_), element_);
    if (input_ && element_ > 0) state.set("input", input_->save());
    return state;
  }

  void load(const State& state) override {
    const StateReader saved(state, "rest");
    const bool inside = saved.has("input");
    stream_ = saved.index("stream", streams_.size() + (inside ? 0 : 1));
    // Without a state of the input, no element of this stream was handed out.
    element_ = saved.count("element", inside ? kMaxCounted : 0);
    delivered_ = 0;
    input_ = nullptr;
    if (!inside) return;
    input_ = open_iterator(streams_[stream_].node, context_of(streams_[stream_]));
    input_->load(saved.at("input"));
  }

 private:
  IterContext context_of(const ResumedStream& stream) const {
    IterContext context = context_;
    context.stream = stream.number;
    return context;
  }

  void open() {
    const ResumedStream& stream = streams_[stream_];
    const StepPosition& position = stream.start.position;
    OpenedIterator opened = open_input(stream.node, context_of(stream));
    input_ = std::move(opened.iterator);
    delivered_ = 0;
    if (stream.start.upstream) {
      input_->load(stream.start.upstream->state);
      delivered_ = position.split.row + position.split.part_rows;
    } else if (opened.runs_plan) {
      input_->load(plan_state(position));
    } else {
      delivered_ = position.row;
    }
  }

  /// `element` without the rows that the earlier run delivered; nullopt if none is left.
  std::optional<Element> without_delivered(Element element) {
    if (delivered_ == 0) return element;
    const std::int64_t rows = count_rows(element, element_, /*whole=*/false, /*cuts_leaves=*/true);
    const std::int64_t gone =
        std::min(std::exchange(delivered_, std::max<std::int64_t>(delivered_ - rows, 0)), rows);
    if (gone == rows) return std::nullopt;
    return cut_part(element, {element_, gone, rows}, {});
  }

  std::vector<ResumedStream> streams_;
  Share share_;
  IterContext context_;
  std::size_t stream_ = 0;
  std::int64_t element_ = 0;  // elements of this stream's rest so far
  // Rows that the earlier run delivered, at the start of the input's next elements.
  std::int64_t delivered_ = 0;
  IteratorPtr input_;
};

/// Passes its own context to the streams, because they are in the place of the pipeline's sources.
class ResumedStreamsNode final : public Node {
 public:
  ResumedStreamsNode(NodePtr like, std::vector<ResumedStream> streams, Share share)
      : like_(std::move(like)), streams_(std::move(streams)), share_(share) {}

  std::string_view name() const override { return "rest"; }
  std::string describe() const override {
    return "rest(streams=" + std::to_string(streams_.size()) + ", share=" + std::to_string(share_.index) +
           " of " + std::to_string(share_.of) + ")";
  }
  /// Ranks share a stream batch by batch, so with another batch size they would take other rows. The text
  /// is the same on all ranks, so that all refuse the same states.
  std::string identity() const override { return share_.shared ? "rest(shared)" : ""; }
  std::vector<NodePtr> inputs() const override { return {like_}; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return resumed_streams_node(std::move(inputs.at(0)), streams_, share_);
  }
  std::int64_t cardinality() const override {
    return like_->cardinality() == kInfiniteCardinality ? kInfiniteCardinality : kUnknownCardinality;
  }
  SpecPtr spec() const override { return like_->spec(); }
  std::optional<std::int64_t> batch_size() const override { return like_->batch_size(); }
  Traits traits() const override {
    Traits traits = like_->traits();
    traits.rows.row_wise = traits.rows.row_wise && !share_.shared;
    return traits;
  }
  /// None that devices could do: the ops of the streams may be copies of those of the input.
  LastNormalizationPtr last_normalization() const override { return nullptr; }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<ResumedStreamsIterator>(streams_, share_, context);
  }

 private:
  NodePtr like_;
  std::vector<ResumedStream> streams_;
  Share share_;
};

}  // namespace

NodePtr resumed_streams_node(NodePtr like, std::vector<ResumedStream> streams, Share share) {
  return std::make_shared<ResumedStreamsNode>(std::move(like), std::move(streams), share);
}

Upstream start_of_resumed_streams() { return {0, place(0, 0)}; }

}  // namespace torch_distinput

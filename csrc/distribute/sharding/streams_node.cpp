// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/streams_node.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/interrupt_poll.h"
#include "core/state_reader.h"
#include "execution/any_op.h"
#include "execution/open.h"
#include "execution/sampled.h"

namespace torch_distinput {
namespace {

constexpr const char* kStreamsName = "streams";
/// Enough to mix files; each has a window of its own in every op that has one.
constexpr std::size_t kOpenStreams = 4;

/// A stream that takes turns.
struct OpenStream {
  std::int64_t number;
  StreamStates::Begun
      at;  ///< `turn` is 0 before its first element; `state` is that of `input` where it is null
  IteratorPtr input = nullptr;
  std::vector<std::int64_t> skipped = {};  ///< drawn by a mixture below `input` before its first element
};

/// `counts` without those `before`, at least 0 each.
std::vector<std::int64_t> counts_since(std::vector<std::int64_t> counts,
                                       const std::vector<std::int64_t>& before) {
  for (std::size_t i = 0; i < std::min(counts.size(), before.size()); ++i)
    counts[i] = std::max<std::int64_t>(counts[i] - before[i], 0);
  return counts;
}

class StreamsIterator final : public Iterator {
 public:
  StreamsIterator(StreamCutPtr cut, const StreamStates& start, IterContext context)
      : cut_(std::move(cut)),
        context_(std::move(context)),
        mixes_(any_op(*cut_->node(), [](const Node& op) { return op.traits().order.mixes; })) {
    go_to(start);
  }

  std::optional<Element> next() override {
    InterruptPoll poll;
    while (!open_.empty()) {
      poll();
      const auto stream =
          std::min_element(open_.begin(), open_.end(), [](const OpenStream& a, const OpenStream& b) {
            return std::pair(a.at.turn, a.number) < std::pair(b.at.turn, b.number);
          });
      if (auto element = input_of(*stream).next()) {
        stream->at.turn = ++others_.turns;
        return element;
      }
      if (mixes_) add_counts(others_.sampled, sampled_by(*stream));
      others_.ended.insert(stream->number);
      open_.erase(stream);
      fill();
    }
    return std::nullopt;
  }

  State save() const override {
    StreamStates states = others_;
    for (const OpenStream& stream : open_) {
      if (stream.at.turn > 0) states.begun[stream.number] = place_of(stream);
    }
    return State().set(kStreamsName, states.write());
  }

  void load(const State& state) override {
    const StateReader saved(state, kStreamsName);
    StreamStates streams = read_streams(saved.at(kStreamsName), kStreamsName);
    TORCH_CHECK_VALUE(
        streams.count == others_.count && streams.begin == others_.begin && streams.end == others_.end,
        kStreamsName, ": the state is of streams [", streams.begin, ", ", streams.end, ") of ", streams.count,
        ", but here are [", others_.begin, ", ", others_.end, ") of ", others_.count, ".");
    go_to(std::move(streams));
  }

 private:
  void go_to(StreamStates states) {
    others_ = std::move(states);
    open_.clear();
    fill();
  }

  /// Opens further streams: those that have begun, then those that have not.
  void fill() {
    while (open_.size() < kOpenStreams && !others_.begun.empty()) {
      auto begun = others_.begun.extract(others_.begun.begin());
      open_.push_back({begun.key(), std::move(begun.mapped())});
    }
    for (std::int64_t stream = others_.begin; open_.size() < kOpenStreams && stream < others_.end; ++stream) {
      if (!others_.ended.contains(stream) && !is_open(stream)) open_.push_back({stream, {}});
    }
  }

  bool is_open(std::int64_t number) const {
    return std::any_of(open_.begin(), open_.end(),
                       [number](const OpenStream& stream) { return stream.number == number; });
  }

  StreamStates::Begun place_of(const OpenStream& stream) const {
    if (!stream.input) return stream.at;
    StreamStates::Begun at{stream.at.turn, stream.input->save()};
    if (mixes_) at.sampled = counts_since(sampled_in(at.state), stream.skipped);
    return at;
  }

  /// What a stream that has ended has drawn.
  std::vector<std::int64_t> sampled_by(const OpenStream& stream) const {
    if (stream.skipped.empty()) return sampled_in(stream.input->save());
    return counts_since(skipped_by(stream.number + 1), stream.skipped);
  }

  std::vector<std::int64_t> skipped_by(std::int64_t stream) const {
    return cut_->sampled_before(stream, others_.count, context_);
  }

  Iterator& input_of(OpenStream& stream) const {
    if (!stream.input) {
      IterContext context = context_;
      context.stream = static_cast<std::uint64_t>(stream.number);
      IteratorPtr input = open_iterator(cut_->stream(stream.number, others_.count), context);
      if (stream.at.turn > 0) input->load(stream.at.state);
      if (mixes_) stream.skipped = skipped_by(stream.number);
      stream.input = std::move(input);
    }
    return *stream.input;
  }

  StreamCutPtr cut_;
  IterContext context_;
  bool mixes_;
  StreamStates others_;  // its `begun` are those that wait for their turn to be opened
  std::vector<OpenStream> open_;
};

/// Passes its own context to the streams, because they are in the place of the pipeline that was cut.
class StreamsNode final : public Node {
 public:
  StreamsNode(StreamCutPtr cut, StreamStates start) : cut_(std::move(cut)), start_(std::move(start)) {}

  std::string_view name() const override { return kStreamsName; }
  std::string describe() const override {
    return c10::str("streams(begin=", start_.begin, ", end=", start_.end, ", count=", start_.count, ")");
  }
  /// The same for all ranks and numbers of ranks.
  std::string identity() const override { return ""; }
  std::vector<NodePtr> inputs() const override { return {cut_->node()}; }
  /// REQUIRES: its own inputs, because its streams are cut from them.
  NodePtr with_inputs(std::vector<NodePtr>) const override { return streams_node(cut_, start_); }
  /// Known where it takes no reading, for streams from their start.
  std::int64_t cardinality() const override {
    const std::int64_t all = cut_->uncounted()->cardinality();
    if (all == kInfiniteCardinality) return all;
    const bool from_start = start_.begun.empty() && start_.ended.empty();
    if (all == kUnknownCardinality || cut_->by_files() || !from_start) return kUnknownCardinality;
    std::int64_t elements = 0;
    for (std::int64_t stream = start_.begin; stream < start_.end; ++stream) {
      const std::int64_t own = cut_->stream(stream, start_.count)->cardinality();
      if (own < 0) return kUnknownCardinality;
      elements += own;
    }
    return elements;
  }
  SpecPtr spec() const override { return cut_->node()->spec(); }
  std::optional<std::int64_t> batch_size() const override { return cut_->node()->batch_size(); }
  Traits traits() const override { return cut_->node()->traits(); }
  /// None that devices could do: the ops of the streams are copies of those of the input.
  LastNormalizationPtr last_normalization() const override { return nullptr; }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<StreamsIterator>(cut_, start_, context);
  }

 private:
  StreamCutPtr cut_;
  StreamStates start_;
};

}  // namespace

NodePtr streams_node(StreamCutPtr cut, StreamStates start) {
  return std::make_shared<StreamsNode>(std::move(cut), std::move(start));
}

}  // namespace torch_distinput

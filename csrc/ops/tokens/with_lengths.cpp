// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include "core/interrupt_poll.h"
#include "execution/batch_reader.h"
#include "execution/draws_order.h"
#include "execution/execution_context.h"
#include "execution/identity.h"
#include "execution/named_leaf.h"
#include "execution/open.h"
#include "execution/plan_iterator.h"
#include "execution/reads_files.h"
#include "execution/unary_node.h"
#include "io/file.h"
#include "io/index_set.h"
#include "ops/ops.h"
#include "ops/tokens/lengths_plan.h"
#include "sources/records/file_errors.h"

namespace torch_distinput {
namespace {

/// Tells how far counting is, as the indexing of files does.
class CountingProgress {
 public:
  explicit CountingProgress(std::int64_t total) : total_(total) {}

  void operator()(std::int64_t counted) {
    const auto now = Clock::now();
    if (now - begin_ < std::chrono::seconds(1) || now - told_ < std::chrono::milliseconds(50)) return;
    told_ = now;
    tell(counted, false);
  }
  void end() {
    if (told_ != Clock::time_point{}) tell(total_, true);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void tell(std::int64_t counted, bool done) const {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Lengths::value_type));
    tell_indexing_progress({.files = 1, .bytes = counted * kBytes, .total = total_ * kBytes, .done = done});
  }

  std::int64_t total_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point told_;
};

/// Reads all elements, ahead and on as many threads as the pipeline is read otherwise.
Lengths count_lengths(const PlanPtr& plan, std::size_t leaf, const IterContext& context,
                      const std::function<void(std::int64_t)>& counted) {
  const IteratorPtr elements = make_plan_iterator(plan, context.execution);
  CountingProgress progress(plan->size());
  InterruptPoll poll;
  Lengths lengths;
  lengths.reserve(static_cast<std::size_t>(plan->size()));
  while (const std::optional<Element> element = elements->next()) {
    poll();
    lengths.push_back(static_cast<std::uint32_t>(length_of(*element, leaf, std::ssize(lengths))));
    counted(std::ssize(lengths));
    progress(std::ssize(lengths));
  }
  progress.end();
  return lengths;
}

/// What the lengths of a pipeline follow from.
class DataHash {
 public:
  DataHash(const NodePtr& node, const IterContext& context) {
    for (const State& op : pipeline_identity(node).as_list()) text_ << op.as_string() << '\n';
    add(*node, context);
  }

  /// The first file that is read; "" if none is.
  const std::string& first_file() const { return first_file_; }
  std::string hash(std::size_t leaf, std::int64_t count) const {
    return c10::sha1(text_.str() + "leaf " + std::to_string(leaf) + " of " + std::to_string(count)).str();
  }

 private:
  void add(const Node& node, const IterContext& context) {
    for (const UserCode* code : node.user_code()) text_ << code->content() << '\n';
    const std::vector<NodePtr> inputs = node.inputs();
    if (const auto* const source = dynamic_cast<const ReadsFiles*>(&node)) {
      add_files(source->files(context).value_or(std::vector<std::string>{}));
    } else {
      for (std::size_t i = 0; i < inputs.size(); ++i) add(*inputs[i], context.input(i));
    }
  }

  /// Folders may have other names on other machines.
  void add_files(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      if (first_file_.empty()) first_file_ = file;
      const FileStamp stamp = stamp_of(file);
      text_ << std::filesystem::path(file).filename().string() << ' ' << stamp.size << ' ' << stamp.mtime
            << '\n';
    }
  }

  std::ostringstream text_;
  std::string first_file_;
};

/// The lengths that the nodes of one dataset have read. Safe from any thread.
class KnownLengths {
 public:
  std::shared_ptr<const Lengths> get(const std::string& hash) {
    const std::lock_guard lock(mutex_);
    return hash == hash_ ? lengths_ : nullptr;
  }
  void keep(const std::string& hash, std::shared_ptr<const Lengths> lengths) {
    const std::lock_guard lock(mutex_);
    hash_ = hash;
    lengths_ = std::move(lengths);
  }

 private:
  std::mutex mutex_;
  std::string hash_;
  std::shared_ptr<const Lengths> lengths_;
};

/// The input, with lengths that are stored. Sharding by file does not look through it, because they are those
/// of all elements.
class WithLengthsNode final : public UnaryNode {
 public:
  WithLengthsNode(NodePtr input, LengthOptions options)
      : UnaryNode(std::move(input)), options_(std::move(options)), known_(std::make_unique<KnownLengths>()) {}

  std::string_view name() const override { return kWithLengthsName; }
  std::string describe() const override {
    return std::string(kWithLengthsName) + "(" + (options_.key ? "key=" + *options_.key : "") + ")";
  }
  std::string identity() const override { return ""; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<WithLengthsNode>(std::move(inputs.at(0)), options_);
  }
  Traits traits() const override { return {.rows = {.row_wise = true}}; }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr elements = input().plan(context.input(0));
    const SpecPtr spec = elements == nullptr ? nullptr : input().spec();
    if (spec == nullptr) return elements;
    const std::size_t leaf = named_leaf(spec->structure, options_.key, kWithLengthsName);
    if (elements->knows_lengths(leaf)) return elements;
    return with_file_errors(kWithLengthsName,
                            [&] { return planned(std::move(elements), leaf, context.input(0)); });
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return open_iterator(input_ptr(), context.input(0));
  }

 private:
  PlanPtr planned(PlanPtr elements, std::size_t leaf, const IterContext& below) const {
    TORCH_CHECK_VALUE(elements->size() != kEndless, kWithLengthsName,
                      ": elements without end have no number of lengths; put it before `repeat`.");
    const DataHash data(input_ptr(), below);
    LengthsOf of{data.hash(leaf, elements->size()), elements->size(), options_.path.value_or(""),
                 data.first_file()};
    TORCH_CHECK_VALUE(!of.place().empty(), kWithLengthsName, ": `", input().describe(),
                      "` reads no file beside which lengths could be stored; give `path`.");
    std::shared_ptr<const Lengths> lengths = known_->get(of.hash);
    if (lengths == nullptr) {
      lengths = std::make_shared<const Lengths>(stored_lengths(
          of, [&](const auto& counted) { return count_lengths(elements, leaf, below, counted); }));
      known_->keep(of.hash, lengths);
    }
    return lengths_plan(std::move(elements), leaf, std::move(lengths), of.place());
  }

  LengthOptions options_;
  std::unique_ptr<KnownLengths> known_;
};

}  // namespace

namespace ops {

NodePtr with_lengths(NodePtr input, LengthOptions options) {
  TORCH_CHECK_VALUE(!draws_order(*input), kWithLengthsName,
                    ": lengths are stored in the order of the elements, but that of `", input->describe(),
                    "` is drawn anew in each epoch; put `with_lengths` before what shuffles.");
  TORCH_CHECK_VALUE(!options.path || !options.path->empty(), kWithLengthsName, ": `path` must not be empty.");
  if (const SpecPtr spec = quiet_spec(*input)) named_leaf(spec->structure, options.key, kWithLengthsName);
  return std::make_shared<WithLengthsNode>(std::move(input), std::move(options));
}

}  // namespace ops
}  // namespace torch_distinput

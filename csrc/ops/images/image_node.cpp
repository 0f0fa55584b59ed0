// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "execution/unary_node.h"
#include "execution/yields_batches.h"
#include "ops/images/choose_leaf.h"
#include "ops/images/image_plan.h"
#include "ops/images/image_targets.h"
#include "ops/ops.h"
#include "torch_distinput/images.h"
#include "torch_distinput/random.h"

namespace torch_distinput {
namespace {

/// Applies a program to elements on the sequential path. The rows' numbers are those of the `map` that calls.
class ImageFunction final : public Function {
 public:
  ImageFunction(ImageProgram program, std::string name, std::shared_ptr<BufferPool> pool)
      : program_(std::move(program)), name_(std::move(name)), pool_(std::move(pool)) {}

  std::string name() const override { return name_; }

  void apply(std::span<Element> elements) const override {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      RowScope::enter(i);
      apply_program(program_, elements[i], RowScope::current_number(), {}, *pool_);
    }
  }

 private:
  ImageProgram program_;
  std::string name_;
  std::shared_ptr<BufferPool> pool_;
};

bool suits_decoding(const LeafSpec& leaf) {
  const auto* const string = std::get_if<StringSpec>(&leaf);
  return string != nullptr && !string->encoding && string->shape == Dims{};
}

bool suits_editing(const LeafSpec& leaf) {
  const auto* const dense = std::get_if<TensorSpec>(&leaf);
  return dense != nullptr && dense->dtype == at::kByte && dense->shape && image_type(*dense->shape);
}

/// One op on the image of each element. Consecutive ops on one leaf run as one program, whatever follows
/// them. Masks and boxes follow an image from `with_image_targets` on, through all ops that keep the
/// structure of elements. Elements, batch size and random access are those of the input; on the sequential
/// path, the state is that of a `map`.
class ImageNode final : public UnaryNode {
 public:
  ImageNode(NodePtr input, ImageStep step, ImageKey key)
      : UnaryNode(std::move(input)), step_(std::move(step)), key_(std::move(key)) {
    check_step(step_);
    const char* const op = step_name(step_);
    TORCH_CHECK_VALUE(!yields_batches(this->input()), op, ": must stand before `batch`.");
    if (decodes()) check_build(op);
    const SpecPtr before = this->input().spec();
    TORCH_CHECK_VALUE(before != nullptr, op,
                      ": the type of the elements is not known; give `element_spec` where they are made.");
    targets_ = targets_before(this->input());
    leaf_ = choose_leaf(*before, key_, query(), targets_.masks());
    if (!decodes()) type_ = image_type(*std::get<TensorSpec>(before->leaves[leaf_]).shape);
    inherited_ = targets_.of(leaf_);
    declare_targets(*before);
    ElementSpec after = *before;
    const ImageType image = ImageProgram(leaf_, type_, {{step_, 0}}).output();
    after.leaves[leaf_] = TensorSpec{image.tensor_dims(), at::kByte};
    for (const std::size_t mask : targets_.of(leaf_).masks)
      after.leaves[mask] = mask_spec_after(before->leaves[mask], image.dims);
    spec_ = std::make_shared<const ElementSpec>(std::move(after));
  }

  std::string_view name() const override { return step_name(step_); }
  std::string describe() const override {
    std::string text = describe_step(step_);
    if (key_.index() == 0) return text;
    text.pop_back();
    return text + (text.back() == '(' ? "key=" : ", key=") + describe_key(key_) + ")";
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return apply_image_step(std::move(inputs.at(0)), step_, key_);
  }

  SpecPtr spec() const override { return spec_; }
  Traits traits() const override {
    return {.sharding = {.pass_through = true}, .rows = {.fallible = true, .follows = Follows::kEach}};
  }

  PlanPtr plan(const IterContext& context) const override {
    if (context.execution->options.skip) return nullptr;
    const Chain chain = this->chain(context);
    PlanPtr rows = chain.base->plan(chain.last_op.input(0));
    if (rows == nullptr) return nullptr;
    return image_plan(std::move(rows), chain.program(), *spec_, context.execution->pool);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    const Chain chain = this->chain(context);
    auto function =
        std::make_shared<ImageFunction>(chain.program(), step_name(step_), context.execution->pool);
    constexpr std::int64_t kOneForEachCpu = -1;
    const MapOptions options{.num_parallel_calls = kOneForEachCpu, .element_spec = *spec_};
    return ops::map(chain.base, std::move(function), options)->iterate(chain.last_op);
  }

 private:
  /// This op and the image ops on the same leaf before it.
  struct Chain {
    NodePtr base;         ///< what they read
    IterContext last_op;  ///< the context of the op that reads it
    std::size_t leaf;
    std::optional<ImageType> input;
    std::vector<ImageProgram::Step> steps;
    Following following;

    ImageProgram program() const { return {leaf, input, steps, following}; }
  };

  /// A program declares targets once: a declaration that replaces another one begins a new program.
  Chain chain(const IterContext& context) const {
    const auto* const before = dynamic_cast<const ImageNode*>(&input());
    const bool begins = decodes() || before == nullptr || before->leaf_ != leaf_ ||
                        (declares() && inherited_ != TargetLeaves{});
    Chain chain = begins ? Chain{input_ptr(), context, leaf_, type_, {}, {inherited_}}
                         : before->chain(context.input(0));
    if (declares()) chain.following = {targets_.of(leaf_), chain.steps.size()};
    chain.steps.push_back({step_, context.rows_key()});
    return chain;
  }

  /// What ops of `node` and before it have declared. Ops that keep the structure pass it on.
  static DeclaredTargets targets_before(const Node& node) {
    if (const auto* const image = dynamic_cast<const ImageNode*>(&node)) return image->targets_;
    const std::vector<NodePtr> inputs = node.inputs();
    std::vector<DeclaredTargets> found;
    for (const NodePtr& input : inputs) found.push_back(targets_before(*input));
    // Asked first, because a spec may run users' code.
    if (std::all_of(found.begin(), found.end(), [](const DeclaredTargets& one) { return one.none(); }))
      return {};
    const SpecPtr spec = node.spec();
    const DeclaredTargets* kept = nullptr;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!found[i].lost_at.empty()) return {{}, found[i].lost_at};
      const SpecPtr before = inputs[i]->spec();
      const bool keeps = spec != nullptr && before != nullptr && spec->structure == before->structure;
      const bool clashes =
          keeps ? kept != nullptr && kept->by_image != found[i].by_image : !found[i].by_image.empty();
      if (clashes) return {{}, std::string(node.name())};
      if (keeps) kept = &found[i];
    }
    return kept == nullptr ? DeclaredTargets{} : *kept;
  }

  /// Takes the targets that this op declares, or checks that those of its image can follow it.
  void declare_targets(const ElementSpec& before) {
    if (const auto* const step = std::get_if<ImageTargets>(&step_)) {
      targets_.by_image[leaf_] = find_targets(*step, before, leaf_, type_->dims, targets_);
      targets_.lost_at.clear();
      return;
    }
    if (decodes()) {
      targets_.by_image.erase(leaf_);
      return;
    }
    TORCH_CHECK_VALUE(
        targets_.lost_at.empty() || std::holds_alternative<ColorJitter>(step_), step_name(step_), ": `",
        targets_.lost_at,
        "` has changed what elements are made of after `with_image_targets`, so that it is not "
        "known which masks and boxes follow the image; call `with_image_targets` again (without "
        "arguments for none).");
    check_targets(step_, inherited_, before);
  }

  static void check_build(const char* op) {
    try {
      check_decoders();
    } catch (const ImageError& error) {
      C10_THROW_ERROR(ValueError, std::string(op) + ": " + error.what() + ".");
    }
  }

  bool decodes() const { return std::holds_alternative<DecodeImage>(step_); }
  bool declares() const { return std::holds_alternative<ImageTargets>(step_); }
  LeafQuery query() const {
    if (decodes()) return {step_name(step_), "key", "an encoded image (one `bytes`)", suits_decoding};
    return {step_name(step_), "key",
            "an image of one row (uint8, 3 dims, 1, 3 or 4 channels, before `batch`)", suits_editing};
  }

  ImageStep step_;
  ImageKey key_;
  std::size_t leaf_ = 0;
  std::optional<ImageType> type_;  ///< of the input's images; unset where they are encoded
  TargetLeaves inherited_;         ///< what follows the image before this op
  DeclaredTargets targets_;        ///< what follows which image after it
  SpecPtr spec_;
};

}  // namespace

NodePtr apply_image_step(NodePtr input, ImageStep step, const ImageKey& key) {
  return std::make_shared<ImageNode>(std::move(input), std::move(step), key);
}

}  // namespace torch_distinput

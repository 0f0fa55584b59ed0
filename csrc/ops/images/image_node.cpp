// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/names.h"
#include "execution/execution_context.h"
#include "execution/unary_node.h"
#include "execution/yields_batches.h"
#include "ops/images/image_plan.h"
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

/// The leaves of the part of `structure` that `key` names: [begin, end).
struct LeafRange {
  std::size_t begin;
  std::size_t end;
};

LeafRange keyed_leaves(const Structure& structure, const ImageKey& key, const char* op) {
  const auto& children = structure.children();
  std::size_t child = children.size();
  std::string shown;
  if (const auto* name = std::get_if<std::string>(&key)) {
    const auto& keys = structure.keys();
    child = static_cast<std::size_t>(std::find(keys.begin(), keys.end(), *name) - keys.begin());
    if (keys.empty()) child = children.size();
    shown = "\"" + *name + "\"";
  } else {
    const std::int64_t index = std::get<std::int64_t>(key);
    if (index >= 0 && static_cast<std::size_t>(index) < children.size() && structure.keys().empty())
      child = static_cast<std::size_t>(index);
    shown = std::to_string(index);
  }
  TORCH_CHECK_VALUE(child < children.size(), op, ": `key` ", shown,
                    " names no part of the elements, which are ", structure.str(), ".");
  std::size_t begin = 0;
  for (std::size_t i = 0; i < child; ++i) begin += static_cast<std::size_t>(children[i]->leaf_count());
  return {begin, begin + static_cast<std::size_t>(children[child]->leaf_count())};
}

/// Whether `leaf` can hold what the op takes: encoded pictures, or uint8 images.
bool suits(const LeafSpec& leaf, bool encoded) {
  if (encoded) {
    const auto* const string = std::get_if<StringSpec>(&leaf);
    return string != nullptr && !string->encoding && string->shape == Dims{};
  }
  const auto* const dense = std::get_if<TensorSpec>(&leaf);
  return dense != nullptr && dense->dtype == at::kByte && dense->shape && image_type(*dense->shape);
}

/// The leaf that `key` names, or the only one that suits.
std::size_t choose_leaf(const ElementSpec& spec, const ImageKey& key, bool encoded, const char* op) {
  LeafRange range{0, spec.leaves.size()};
  if (key.index() != 0) range = keyed_leaves(*spec.structure, key, op);
  std::vector<std::size_t> found;
  for (std::size_t leaf = range.begin; leaf < range.end; ++leaf) {
    if (suits(spec.leaves[leaf], encoded)) found.push_back(leaf);
  }
  TORCH_CHECK_VALUE(!found.empty(), op, ": no leaf is ",
                    encoded ? "an encoded picture (one `bytes`)"
                            : "an image of one row (uint8, 3 dims, 1, 3 or 4 channels, before `batch`)",
                    ": ", to_string(spec), ".");
  TORCH_CHECK_VALUE(found.size() == 1, op, ": `key` must name the image, because ", found.size(),
                    " leaves could be it: ", leaf_name(*spec.structure, found[0]), " and ",
                    leaf_name(*spec.structure, found[1]), ".");
  return found.front();
}

/// One op on the picture of each element. Consecutive ops on one leaf run as one program, whatever follows
/// them. Elements, batch size and random access are those of the input; on the sequential path, the state is
/// that of a `map`.
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
    leaf_ = choose_leaf(*before, key_, decodes(), op);
    if (!decodes()) type_ = image_type(*std::get<TensorSpec>(before->leaves[leaf_]).shape);
    ElementSpec after = *before;
    after.leaves[leaf_] = TensorSpec{program({{step_, 0}}).output().tensor_dims(), at::kByte};
    spec_ = std::make_shared<const ElementSpec>(std::move(after));
  }

  std::string_view name() const override { return step_name(step_); }
  std::string describe() const override {
    std::string text = describe_step(step_);
    if (key_.index() == 0) return text;
    const auto* const name = std::get_if<std::string>(&key_);
    text.pop_back();
    return text + (text.back() == '(' ? "key=" : ", key=") +
           (name != nullptr ? "'" + *name + "'" : std::to_string(std::get<std::int64_t>(key_))) + ")";
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return apply_image_step(std::move(inputs.at(0)), step_, key_);
  }

  SpecPtr spec() const override { return spec_; }
  Traits traits() const override { return {.pass_through = true, .fallible = true}; }

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

    ImageProgram program() const { return {leaf, input, steps}; }
  };

  Chain chain(const IterContext& context) const {
    const auto* const before = dynamic_cast<const ImageNode*>(&input());
    if (decodes() || before == nullptr || before->leaf_ != leaf_)
      return {input_ptr(), context, leaf_, type_, {{step_, context.rows_key()}}};
    Chain chain = before->chain(context.input(0));
    chain.steps.push_back({step_, context.rows_key()});
    return chain;
  }

  static void check_build(const char* op) {
    try {
      check_decoders();
    } catch (const ImageError& error) {
      C10_THROW_ERROR(ValueError, std::string(op) + ": " + error.what() + ".");
    }
  }

  bool decodes() const { return std::holds_alternative<DecodeImage>(step_); }
  ImageProgram program(std::vector<ImageProgram::Step> steps) const {
    return {leaf_, type_, std::move(steps)};
  }

  ImageStep step_;
  ImageKey key_;
  std::size_t leaf_ = 0;
  std::optional<ImageType> type_;  ///< of the input's images; unset where they are encoded
  SpecPtr spec_;
};

}  // namespace

NodePtr apply_image_step(NodePtr input, ImageStep step, const ImageKey& key) {
  return std::make_shared<ImageNode>(std::move(input), std::move(step), key);
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "core/element_type.h"
#include "core/interrupt_poll.h"
#include "core/locate_errors.h"
#include "core/state_reader.h"
#include "sources/source_node.h"
#include "sources/sources.h"

namespace torch_distinput::sources {
namespace {

constexpr const char* kGeneratorName = "from_generator";

using GeneratorSourcePtr = std::shared_ptr<const GeneratorSource>;

/// Runs the user's generator in the caller's thread, from the first `next` on. Sequential only, and of
/// unknown cardinality. The state is the number of elements handed out.
class GeneratorIterator final : public Iterator {
 public:
  GeneratorIterator(GeneratorSourcePtr source, SpecPtr spec)
      : source_(std::move(source)), spec_(std::move(spec)) {}

  std::optional<Element> next() override {
    std::optional<Element> element =
        locate_errors(*source_, [this] { return located(elements_); }, [this] { return generate(); });
    if (!element) return std::nullopt;
    if (spec_ != nullptr) {
      check_element(*element, *spec_, c10::str(kGeneratorName, ": element ", elements_));
    } else {
      type_.check(*element, elements_, kGeneratorName);
    }
    ++elements_;
    return element;
  }

  State save() const override { return State().set("elements", elements_); }

  /// A generator has no position, so it is run again up to the saved one.
  void load(const State& state) override {
    const std::int64_t wanted = StateReader(state, kGeneratorName).count("elements");
    generator_ = nullptr;
    InterruptPoll poll;
    for (elements_ = 0; elements_ < wanted;) {
      poll();
      TORCH_CHECK_VALUE(next(), kGeneratorName, ": the saved position is after element ", wanted - 1,
                        ", but the generator ended after ", elements_,
                        "; it must yield the same elements again.");
    }
  }

 private:
  std::optional<Element> generate() {
    if (generator_ == nullptr) generator_ = source_->open();
    return generator_->next();
  }
  std::string located(std::int64_t element) const {
    return c10::str(kGeneratorName, "(", source_->name(), "): element ", element);
  }

  GeneratorSourcePtr source_;
  SpecPtr spec_;
  ElementType type_;
  std::unique_ptr<Generator> generator_;
  std::int64_t elements_ = 0;
};

class GeneratorNode final : public SourceNode {
 public:
  GeneratorNode(GeneratorSourcePtr source, std::optional<ElementSpec> spec)
      : source_(std::move(source)),
        declared_(spec ? std::make_shared<const ElementSpec>(*std::move(spec)) : nullptr) {}

  std::string_view name() const override { return kGeneratorName; }
  std::string describe() const override { return c10::str(kGeneratorName, "(", source_->name(), ")"); }
  SpecPtr spec() const override {
    if (declared_) return declared_;
    return probe_.get([this]() -> SpecPtr {
      const std::optional<Element> first = GeneratorIterator(source_, nullptr).next();
      return first ? std::make_shared<const ElementSpec>(probed_spec(*first)) : nullptr;
    });
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  Traits traits() const override { return {.rows = {.fallible = true}}; }
  std::vector<const UserCode*> user_code() const override { return {source_.get()}; }

  IteratorPtr iterate(const IterContext&) const override {
    return std::make_unique<GeneratorIterator>(source_, declared_);
  }

 private:
  GeneratorSourcePtr source_;
  SpecPtr declared_;
  SpecProbe probe_;
};

}  // namespace

NodePtr generator(std::shared_ptr<const GeneratorSource> source, std::optional<ElementSpec> spec) {
  TORCH_CHECK_VALUE(source != nullptr, kGeneratorName, ": `source` must not be null.");
  return std::make_shared<GeneratorNode>(std::move(source), std::move(spec));
}

}  // namespace torch_distinput::sources

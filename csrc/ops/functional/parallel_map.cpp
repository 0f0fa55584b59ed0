// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/parallel_map.h"

#include <exception>
#include <utility>

#include "core/state_reader.h"
#include "execution/execution_context.h"
#include "execution/skip_budget.h"
#include "ops/functional/map_calls.h"
#include "torch_distinput/process_function.h"

namespace torch_distinput {
namespace {

/// Returns a result of a finished call; nullopt if the element failed and is skipped.
std::optional<Element> result(MapCall& call, std::size_t index, SkipBudget& budget) {
  if (call.errors[index] == nullptr) {
    budget.pass();
    return std::move(call.elements[index]);
  }
  try {
    std::rethrow_exception(call.errors[index]);
  } catch (const LostProcessError&) {
    throw;
  } catch (...) {
    budget.fail();
  }
  return std::nullopt;
}

/// `kNextDone` returns the call that is delivered next.
template <MapCallPtr (MapCalls::*kNextDone)()>
class ParallelMap final : public Iterator {
 public:
  ParallelMap(IteratorPtr input, const std::shared_ptr<const MapFunction>& function, std::int64_t calls,
              const IterContext& context)
      : calls_(std::move(input), function, calls, context.execution->executor),
        budget_(context, function->call()) {}

  std::optional<Element> next() override {
    for (;;) {
      calls_.fill();
      const MapCallPtr call = (calls_.*kNextDone)();
      if (call == nullptr) {
        budget_.end();
        return std::nullopt;
      }
      const std::size_t index = call->next;
      calls_.deliver_next(*call);
      if (std::optional<Element> element = result(*call, index, budget_)) return element;
    }
  }

  State save() const override { return calls_.save().set("skip", budget_.save()); }

  void load(const State& state) override {
    budget_.load(StateReader(state, "map").at("skip"));
    calls_.load(state);
  }

 private:
  MapCalls calls_;
  SkipBudget budget_;
};

}  // namespace

IteratorPtr ordered_parallel_map(IteratorPtr input, std::shared_ptr<const MapFunction> function,
                                 std::int64_t calls, const IterContext& context) {
  return std::make_unique<ParallelMap<&MapCalls::oldest>>(std::move(input), function, calls, context);
}

IteratorPtr unordered_parallel_map(IteratorPtr input, std::shared_ptr<const MapFunction> function,
                                   std::int64_t calls, const IterContext& context) {
  return std::make_unique<ParallelMap<&MapCalls::any>>(std::move(input), function, calls, context);
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
// What a temporary returns outlives it: `const at::Tensor& x = batch["x"].tensor();` is a habit of C++
// programs.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/ops/arange.h>
#include <c10/core/Device.h>
#include <gtest/gtest.h>

#include "torch_distinput/dataset.h"
#include "torch_distinput/distributed_dataset.h"
#include "torch_distinput/distributed_iterator.h"
#include "torch_distinput/element.h"
#include "torch_distinput/error.h"
#include "torch_distinput/files.h"
#include "torch_distinput/image_folder.h"
#include "torch_distinput/optional.h"
#include "torch_distinput/per_replica.h"
#include "torch_distinput/state.h"
#include "torch_distinput/strategy.h"
#include "torch_distinput/torch_data.h"
#include "torch_distinput/typed.h"

namespace torch_distinput {
namespace {

/// Whether `Call` returns a value for temporaries of `Object`, also for const ones.
template <class Object, class Call>
constexpr bool kOwned = !std::is_reference_v<std::invoke_result_t<Call, Object>> &&
                        !std::is_reference_v<std::invoke_result_t<Call, const Object>>;
/// Whether it returns a reference for what has a name.
template <class Object, class Call>
constexpr bool kShared = std::is_reference_v<std::invoke_result_t<Call, const Object&>>;

#define TDI_CALL(call) decltype([](auto&& o) -> decltype(auto) { return std::forward<decltype(o)>(o) call; })

/// A handle that shares what it points to, and is a value from any object.
#define TDI_HANDLE(Object, call) \
  static_assert(kOwned<Object, TDI_CALL(call)> && kOwned<Object&, TDI_CALL(call)>)
TDI_HANDLE(Element, .tensor());
TDI_HANDLE(Element, .tensor(std::size_t{0}));
TDI_HANDLE(Element, .structure());
TDI_HANDLE(Dataset, .node());
TDI_HANDLE(FileNames, .node());

/// A container: a reference from what has a name, a value from a temporary.
#define TDI_CONTAINER(Object, call) \
  static_assert(kOwned<Object, TDI_CALL(call)> && kShared<Object, TDI_CALL(call)>)
TDI_CONTAINER(Element, .leaves());
TDI_CONTAINER(PerReplica, .values());
TDI_CONTAINER(PerReplica, .info());
TDI_CONTAINER(PerReplica, [std::size_t{0}]);
TDI_CONTAINER(Optional, .get_value());
TDI_CONTAINER(DistributedIterator, .step_info());
TDI_CONTAINER(ReplicaError, .errors());
TDI_CONTAINER(ImageFolder, .classes());
TDI_CONTAINER(Strategy, .devices());
TDI_CONTAINER(OneDeviceStrategy, .devices());
TDI_CONTAINER(MirroredStrategy, .devices());
TDI_CONTAINER(State, .at("x"));
TDI_CONTAINER(State, .as_string());
TDI_CONTAINER(State, .as_list());
TDI_CONTAINER(State, .as_map());
TDI_CONTAINER(State, .value());

static_assert(std::same_as<decltype(std::declval<Element&>().leaves()), std::vector<Leaf>&>);
static_assert(std::same_as<decltype(std::declval<State&>().set("x", 1)), State&>);
static_assert(std::same_as<decltype(State().set("x", 1)), State>);
static_assert(std::same_as<decltype(std::declval<const Bytes&>()[0]), std::string_view>);
static_assert(std::same_as<decltype(std::declval<Bytes>()[0]), std::string>);
static_assert(std::same_as<decltype(std::declval<const Bytes>()[0]), std::string>);

// Iterators: what `*` of a temporary returns, as in `const Element& first = *dataset.begin();`.
static_assert(std::same_as<decltype(*std::declval<Dataset::const_iterator>()), Element>);
static_assert(std::same_as<decltype(*std::declval<Dataset::const_iterator&>()), const Element&>);
static_assert(std::same_as<decltype(*std::declval<DistributedDataset::const_iterator>()), PerReplica>);
static_assert(
    std::same_as<decltype(*std::declval<DistributedDataset::const_iterator&>()), const PerReplica&>);

template <class Range>
concept GivesIterators = requires(Range&& range) {
  std::forward<Range>(range).begin();
  std::forward<Range>(range).end();
};
static_assert(GivesIterators<PerReplica&> && GivesIterators<const PerReplica&>);
static_assert(!GivesIterators<PerReplica> && !GivesIterators<const PerReplica>);

struct Named {
  std::int64_t x;
  std::string name;
  static auto fields() { return torch_distinput::fields(field("x", &Named::x), field("name", &Named::name)); }
};
struct View {
  std::string_view name;
  static auto fields() { return torch_distinput::fields(field("name", &View::name)); }
};
template <class Row>
using RowIterator = typename TypedDataset<Row>::const_iterator;
template <class Iterator>
concept Dereferenced = requires(Iterator&& iterator) { *std::forward<Iterator>(iterator); };
static_assert(std::same_as<decltype(*std::declval<RowIterator<Named>>()), Named>);
static_assert(std::same_as<decltype(*std::declval<RowIterator<View>&>()), const View&>);
static_assert(!Dereferenced<RowIterator<View>>);
// Views of strings are not taken of an element that is about to go.
static_assert(std::invocable<const RowReader<Named>&, Element> &&
              std::invocable<const RowReader<View>&, Element&>);
static_assert(!std::invocable<const RowReader<View>&, Element>);
static_assert(!std::invocable<const RowReader<View>&, const Element>);

struct Source {
  using BatchType = at::Tensor;
  using BatchRequestType = std::size_t;
};
using Loader = TorchDataLoader<Source>;
static_assert(std::same_as<decltype(*std::declval<Loader::iterator>()), at::Tensor>);
static_assert(std::same_as<decltype(*std::declval<Loader::iterator&>()), at::Tensor&>);
static_assert(std::same_as<decltype(std::declval<Loader>().step_info()), StepInfo>);
static_assert(std::same_as<decltype(std::declval<const Loader&>().step_info()), const StepInfo&>);
static_assert(std::same_as<decltype(std::declval<const Loader&>().dataset()), DistributedDataset>);

Element pairs() { return Element::dict({{"x", at::arange(3)}, {"y", at::arange(3, 6)}}); }

TEST(Temporaries, ATensorOfAPartOutlivesThePart) {
  const at::Tensor& y = pairs()["y"].tensor();
  EXPECT_EQ(y.sum().item<std::int64_t>(), 12);
  const StructurePtr& structure = pairs().structure();
  EXPECT_EQ(structure->str(), "{'x': *, 'y': *}");
  const std::vector<Leaf>& leaves = pairs().leaves();
  EXPECT_EQ(std::get<at::Tensor>(leaves[1]).sum().item<std::int64_t>(), 12);
}

TEST(Temporaries, ATensorOfAnIteratorsElementOutlivesIt) {
  auto iterator = Dataset::from_tensors(pairs()["y"]).iterate();
  const at::Tensor& x = iterator.next()->tensor();  // of an optional, by its pointer
  EXPECT_EQ(x.sum().item<std::int64_t>(), 12);
}

TEST(Temporaries, LoopsOverTemporariesReadWhatLives) {
  std::int64_t sum = 0;
  for (const Leaf& leaf : pairs().leaves()) sum += std::get<at::Tensor>(leaf).sum().item<std::int64_t>();
  EXPECT_EQ(sum, 3 + 12);

  std::int64_t rows = 0;
  for (const auto& step : MirroredStrategy({"cpu", "cpu"}).distribute_dataset(Dataset::range(5).batch(4)))
    for (const Element& part : step) rows += part.tensor().size(0);
  EXPECT_EQ(rows, 5);

  std::int64_t devices = 0;
  for (const c10::Device& device : MirroredStrategy({"cpu", "cpu"}).devices()) devices += device.is_cpu();
  EXPECT_EQ(devices, 2);

  std::string keys;
  for (const auto& [key, value] : State().set("a", 1).set("b", 2).as_map()) keys += key;
  EXPECT_EQ(keys, "ab");

  const auto make_step = [] { return PerReplica({pairs(), pairs()}, {.step = 7}); };
  std::size_t parts = 0;
  for (const Element& part : make_step()) parts += part.leaves().size();
  for (const Element& part : make_step().values()) parts += part.leaves().size();
  EXPECT_EQ(parts, 8U);
  const StepInfo& info = make_step().info();
  EXPECT_EQ(info.step, 7);
  const Element& part = make_step()[1];
  EXPECT_EQ(part.rows(), 3);
}

TEST(Temporaries, TheFirstElementOfADatasetOutlivesTheIterator) {
  const Element& first = *Dataset::range(3, 5).begin();
  EXPECT_EQ(first.tensor().item<std::int64_t>(), 3);
  const PerReplica& step = *OneDeviceStrategy("cpu").distribute_dataset(Dataset::range(4).batch(4)).begin();
  EXPECT_EQ(step[0].tensor().size(0), 4);
  const PerReplica& value = Optional(step).get_value();
  EXPECT_EQ(value.size(), 1U);
}

TEST(Temporaries, AStringOfAColumnOutlivesTheColumn) {
  const std::string_view texts[] = {"a string that is longer than a small one", "b"};
  const auto text = Bytes::column(texts)[0];
  EXPECT_EQ(text, texts[0]);
}

TEST(Temporaries, EntriesOfAStateOutliveIt) {
  const auto make = [] {
    return State().set("list", State::List{State().set("name", std::string(40, 'a'))});
  };
  const State& entry = make().at("list");
  const State::List& list = make().at("list").as_list();
  const std::string& name = State(std::string(40, 'a')).as_string();
  EXPECT_EQ(entry.as_list(), list);
  EXPECT_EQ(list.at(0).at("name").as_string(), name);
}

}  // namespace
}  // namespace torch_distinput

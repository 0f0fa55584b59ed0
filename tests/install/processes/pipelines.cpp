// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// `pipelines FILE`: builds the pipelines that FILE describes, a JSON list of {"size": n, "ops": [[name,
// numbers...]]}, and prints the elements of each: a line an element, then what three replicas get of it where
// it has rows.
#include <iostream>

#include <ATen/TensorOperators.h>
#include <torch_distinput/state.h>
#include <torch_distinput/strategy.h>

namespace tdi = torch_distinput;

namespace {

tdi::Element plus(const tdi::Element& element, std::int64_t number) { return element.tensor() + number; }

bool keeps(const tdi::Element& element, std::int64_t number) {
  return element.tensor().sum().item<std::int64_t>() % number != 0;
}

tdi::Dataset with_op(const tdi::Dataset& dataset, const tdi::State::List& op) {
  const std::string& name = op[0].as_string();
  const auto number = [&op](std::size_t i) { return op.at(i).as_int(); };
  if (name == "shuffle") return dataset.shuffle({.seed = number(1)});
  if (name == "unseeded_shuffle") return dataset.shuffle();
  if (name == "windowed_shuffle") return dataset.shuffle({.buffer_size = number(1), .seed = number(2)});
  if (name == "batch") return dataset.batch(number(1), {.drop_remainder = number(2) == 1});
  if (name == "unbatch") return dataset.unbatch();
  if (name == "rebatch") return dataset.rebatch({number(1), number(2)});
  if (name == "repeat") return dataset.repeat(number(1));
  if (name == "take") return dataset.take(number(1));
  if (name == "skip") return dataset.skip(number(1));
  if (name == "shard") return dataset.shard(number(1), number(2));
  if (name == "concatenate") return dataset.concatenate(dataset.take(number(1)));
  if (name == "cache") return dataset.cache();
  if (name == "prefetch") return dataset.prefetch(number(1));
  if (name == "seed") return dataset.with_options({.seed = number(1)});
  if (name == "map") return dataset.map([add = number(1)](const tdi::Element& e) { return plus(e, add); });
  if (name == "parallel_map")
    return dataset.map([add = number(1)](const tdi::Element& e) { return plus(e, add); },
                       {.num_parallel_calls = 2});
  if (name == "filter")
    return dataset.filter([by = number(1)](const tdi::Element& e) { return keeps(e, by); });
  throw std::invalid_argument(name);
}

void print_items(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  for (std::int64_t i = 0; i < flat.numel(); ++i) std::cout << flat.const_data_ptr<std::int64_t>()[i] << ' ';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const tdi::MirroredStrategy strategy({"cpu", "cpu", "cpu"});
  const tdi::State pipelines = tdi::State::load(argv[1]);
  for (const tdi::State& pipeline : pipelines.as_list()) {
    tdi::Dataset dataset = tdi::Dataset::range(pipeline.at("size").as_int());
    for (const tdi::State& op : pipeline.at("ops").as_list()) dataset = with_op(dataset, op.as_list());
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      tdi::DatasetIterator elements = dataset.iterate({.epoch = epoch});
      while (const auto element = elements.next()) {
        print_items(element->tensor());
        std::cout << '\n';
      }
    }
    if (pipeline.at("batched").as_bool()) {
      for (const tdi::PerReplica& step : strategy.distribute_dataset(dataset)) {
        for (const tdi::Element& part : step) {
          print_items(part.tensor());
          std::cout << "| ";
        }
        std::cout << '\n';
      }
    }
    std::cout << "end\n";
  }
}

#include <iostream>

#include <torch_distinput/torch_distinput.h>
namespace tdi = torch_distinput;

int main() {
  auto ds = tdi::Dataset::range(10).shuffle({.seed = 7}).batch(4);
  tdi::MirroredStrategy strategy({"cpu", "cpu"});
  for (const tdi::PerReplica& batch : strategy.distribute_dataset(ds))
    for (const tdi::Element& part : batch) std::cout << part.tensor() << '\n';
}

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch_distinput/torch_distinput.h>

namespace tdi = torch_distinput;

namespace {

c10::intrusive_ptr<c10d::TCPStore> connect(std::uint16_t port, int rank) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = rank == 0;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("localhost", options);
}

/// The process with the store is the last to leave.
void part(c10d::Store& store, int rank, int size) {
  store.set("done/" + std::to_string(rank), "yes");
  for (int other = 0; rank == 0 && other < size; ++other) store.wait({"done/" + std::to_string(other)});
}

/// `what step rows of the step: row row ...` for each step of this process.
void print_steps(const std::string& what, const tdi::DistributedDataset& dataset) {
  for (const tdi::PerReplica& batch : dataset) {
    std::cout << what << ' ' << batch.info().step << ' ' << batch.info().global_valid << ':';
    const at::Tensor mine = batch[0].tensor();
    for (std::int64_t i = 0; i < mine.numel(); ++i)
      std::cout << ' ' << mine.const_data_ptr<std::int64_t>()[i];
    std::cout << '\n';
  }
}

/// As many rows as the process's number says, of its own: the processes have to agree on the end.
tdi::Dataset own_rows(const tdi::InputContext& context) {
  const std::int64_t process = context.input_pipeline_id;
  return tdi::Dataset::range(100 * process, 100 * process + 3 + 4 * process).batch(2);
}

}  // namespace

/// `app PORT RANK SIZE`
int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int rank = std::atoi(argv[2]);
  const int size = std::atoi(argv[3]);
  const auto store = connect(static_cast<std::uint16_t>(std::atoi(argv[1])), rank);
  {
    const tdi::MultiWorkerMirroredStrategy strategy(tdi::ProcessGroup(*store, rank, size));
    print_steps("shared", strategy.distribute_dataset(tdi::Dataset::range(10).shuffle().batch(4)));
    print_steps("own", strategy.distribute_datasets_from_function(own_rows));
  }
  part(*store, rank, size);
}

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch_distinput/torch_distinput.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

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

}  // namespace

/// `app PORT RANK SIZE`: prints `step rows of the step: row row ...` for each step of this process.
int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int rank = std::atoi(argv[2]);
  const int size = std::atoi(argv[3]);
  const auto store = connect(static_cast<std::uint16_t>(std::atoi(argv[1])), rank);
  {
    const tdi::MultiWorkerMirroredStrategy strategy(tdi::ProcessGroup(*store, rank, size));
    const auto rows = tdi::Dataset::range(10).shuffle().batch(4);
    for (const tdi::PerReplica& batch : strategy.distribute_dataset(rows)) {
      std::cout << batch.info().step << ' ' << batch.info().global_valid << ':';
      const at::Tensor mine = batch[0].tensor();
      for (std::int64_t i = 0; i < mine.numel(); ++i)
        std::cout << ' ' << mine.const_data_ptr<std::int64_t>()[i];
      std::cout << '\n';
    }
  }
  part(*store, rank, size);
}

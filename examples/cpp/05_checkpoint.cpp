// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// Processes stop in the middle of an epoch and continue as another number of processes; every row is seen
// once.
//   torchrun --no-python --nproc-per-node=2 05_checkpoint state.json 3    # takes 3 steps, then saves
//   torchrun --no-python --nproc-per-node=3 05_checkpoint state.json      # continues to the end of the epoch
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include <torch_distinput/torch_distinput.h>

namespace tdi = torch_distinput;

constexpr int kRows = 50;
constexpr int kBatch = 6;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string path = argv[1];
  const std::int64_t most = argc > 2 ? std::atoll(argv[2]) : kRows;

  const tdi::ProcessGroup group = tdi::ProcessGroup::from_env();
  const tdi::MultiWorkerMirroredStrategy strategy(group, {"cpu"});
  const tdi::Dataset dataset = tdi::Dataset::range(kRows).shuffle({.seed = 7}).batch(kBatch);
  tdi::DistributedIterator steps = strategy.distribute_dataset(dataset).iterate();
  if (std::filesystem::exists(path)) steps.load(tdi::State::load(path));

  std::ostringstream text;
  for (std::int64_t step = 0; step < most; ++step) {
    const std::optional<tdi::PerReplica> batch = steps.next();
    if (!batch) break;
    const at::Tensor rows = (*batch)[0].tensor();
    for (std::int64_t i = 0; i < rows.size(0); ++i) text << ' ' << rows[i].item<std::int64_t>();
  }
  // All processes are at the same position. The model goes into the same checkpoint with torch::save, or both
  // into one archive: `archive << state`.
  if (group.rank == 0) steps.save().save(path);
  std::cout << "rows" << text.str() << '\n';
}

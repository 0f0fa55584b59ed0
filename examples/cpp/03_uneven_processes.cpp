// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
//
// Processes whose data ends at different times take the same number of steps: process p has 5 + 4 p rows of
// its own. Every row counts once in the sums, which all processes see.
//   torchrun --no-python --nproc-per-node=4 03_uneven_processes
//   mpirun -n 4 03_uneven_processes
//   srun -n 4 03_uneven_processes
#include <iostream>

#include <ATen/ops/full.h>
#include <ATen/ops/sum.h>
#include <torch_distinput/torch_distinput.h>

namespace tdi = torch_distinput;

constexpr int kBatch = 2;

tdi::Dataset own_rows(const tdi::InputContext& context) {
  const std::int64_t process = context.input_pipeline_id;
  return tdi::Dataset::range(100 * process, 100 * process + 5 + 4 * process).batch(kBatch);
}

int main() {
  const tdi::ProcessGroup group = tdi::ProcessGroup::from_env();
  const tdi::MultiWorkerMirroredStrategy strategy(group, {"cpu"});
  std::int64_t steps = 0;
  std::int64_t rows = 0;
  std::int64_t sum = 0;
  for (const tdi::PerReplica& batch : strategy.distribute_datasets_from_function(own_rows)) {
    // A process without data left gets a batch of zero rows, and takes part in every exchange.
    sum += strategy.reduce(tdi::ReduceOp::kSum, {batch[0].tensor().sum()}).item<std::int64_t>();
    rows += batch.info().global_valid;
    ++steps;
  }
  std::cout << "process " << group.rank << " of " << group.size << ": steps " << steps << ", rows " << rows
            << ", sum " << sum << '\n';
}

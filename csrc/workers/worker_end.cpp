// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/worker_end.h"

#include <algorithm>
#include <utility>

namespace torch_distinput {

WorkerEnd::WorkerEnd(std::shared_ptr<WorkerMemory> memory, int worker)
    : memory_(std::move(memory)),
      control_(&memory_->control(worker)),
      tasks_(control_->tasks, memory_->tasks(worker), WorkerMemory::kRing),
      results_(control_->results, memory_->results(worker), WorkerMemory::kRing),
      slabs_(memory_->segment(), control_->freed,
             std::max(memory_->slabs_begin(worker), control_->first_slab.load()),
             memory_->slabs_end(worker)) {}

bool WorkerEnd::receive(std::string& task) {
  heard_ = control_->to_worker.listen();
  bool made_room = false;
  const bool received = tasks_.receive(task, made_room);
  received_ += received ? 1 : 0;
  // The consumer sends the rest of a task that did not fit into the ring when its bell rings.
  if (made_room && !received) memory_->to_consumer().ring();
  return received;
}

void WorkerEnd::send(std::string_view result) {
  results_.send(result);
  memory_->to_consumer().ring();
}

bool WorkerEnd::flushed() {
  heard_ = control_->to_worker.listen();
  if (results_.flush()) memory_->to_consumer().ring();
  return results_.empty();
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
/// The operators that a backend registers so that its devices combine values among themselves. As with NCCL,
/// each device's current stream waits at its part until all streams have reached theirs.
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "host_view.h"
#include "state.h"

namespace torch_distinput::fake {
namespace {

struct Rendezvous {
  Rendezvous(std::size_t parts, std::function<void()> all_do) : missing(parts), work(std::move(all_do)) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t missing;
  std::function<void()> work;
};

/// Queues `work`, which runs once the current streams of the devices of all `values` have reached it.
void queue_together(at::TensorList values, std::function<void()> work) {
  ++state().collectives;
  const auto rendezvous = std::make_shared<Rendezvous>(values.size(), std::move(work));
  for (const at::Tensor& value : values) {
    const c10::DeviceIndex device = value.device().index();
    stream_of(current_stream(device)).push([rendezvous, device] {
      take_time(device);
      std::unique_lock lock(rendezvous->mutex);
      if (--rendezvous->missing == 0) {
        rendezvous->work();
        rendezvous->changed.notify_all();
      }
      rendezvous->changed.wait(lock, [&] { return rendezvous->missing == 0; });
    });
  }
}

using Views = std::vector<HostView>;

Views views_of(at::TensorList tensors) { return {tensors.begin(), tensors.end()}; }

at::Tensor sum_of(const Views& addends) {
  at::Tensor sum = addends.front().tensor().clone();
  for (std::size_t i = 1; i < addends.size(); ++i) sum.add_(addends[i].tensor());
  return sum;
}

void all_reduce(at::TensorList values, at::TensorList out) {
  queue_together(values, [addends = views_of(values), sums = views_of(out)] {
    const at::Tensor sum = sum_of(addends);
    for (const HostView& one : sums) one.tensor().copy_(sum);
  });
}

void reduce(at::TensorList values, std::int64_t, at::Tensor& out) {
  queue_together(values,
                 [addends = views_of(values), sum = HostView(out)] { sum.tensor().copy_(sum_of(addends)); });
}

void gather(at::TensorList values, std::int64_t, at::TensorList out) {
  queue_together(values, [sent = views_of(values), gathered = views_of(out)] {
    for (std::size_t i = 0; i < sent.size(); ++i) gathered[i].tensor().copy_(sent[i].tensor());
  });
}

TORCH_LIBRARY_IMPL(torch_distinput, PrivateUse1, library) {
  library.impl("all_reduce", all_reduce);
  library.impl("reduce", reduce);
  library.impl("gather", gather);
}

}  // namespace
}  // namespace torch_distinput::fake

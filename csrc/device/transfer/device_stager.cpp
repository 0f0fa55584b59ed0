// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/transfer/device_stager.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <c10/util/Exception.h>
#include <unistd.h>

#include "core/tensor_on.h"
#include "device/cuda_library.h"
#include "device/transfer/copy_block.h"
#include "device/transfer/copy_engine.h"
#include "device/transfer/in_flight_copies.h"
#include "device/transfer/page_locked.h"
#include "device/transfer/unpack_op.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

struct Staged {
  Element element;
  std::vector<c10::Storage> blocks;
  Event arrived;  // null if nothing is copied
};

namespace {

std::size_t unpacked_bytes(const at::Tensor& images, const ImageNormalization& unpacking) {
  return static_cast<std::size_t>(images.numel()) * c10::elementSize(unpacking.scaling.dtype);
}

/// The blocks of `tensors`. `lies_at` is set only for memory that the device copies from directly.
std::vector<CopyBlock> pack_for(const CopyEngine& engine, const HostTensors& tensors) {
  std::vector<CopyBlock> copy_blocks = pack(tensors);
  for (CopyBlock& copy_block : copy_blocks) {
    if (copy_block.lies_at == nullptr) continue;
    if (!engine.reads_directly(tensors.tensors[copy_block.pieces.front().tensor]))
      copy_block.lies_at = nullptr;
  }
  return copy_blocks;
}

/// Host memory with the pieces of `copy_block`, held by `buffers`.
const void* load(const CopyBlock& copy_block, const HostTensors& tensors, CopyEngine& engine,
                 PinnedBuffers& buffers) {
  if (copy_block.lies_at != nullptr) {
    buffers.tensors.push_back(tensors.tensors[copy_block.pieces.front().tensor]);
    return copy_block.lies_at;
  }
  Block& block = buffers.blocks.emplace_back(engine.host_pool()->acquire(copy_block.bytes));
  put_together(copy_block, tensors, static_cast<char*>(block.data()));
  return block.data();
}

/// The unpacked `images`, which are on the device or being copied there.
at::Tensor unpack(const at::Tensor& images, const ImageNormalization& unpacking, CopyEngine& engine) {
  const ImageScaling& scaling = unpacking.scaling;
  const ChannelDim from = find_channels(images.sizes(), scaling.channels(), "a batch of images");
  const std::size_t bytes = std::max<std::size_t>(unpacked_bytes(images, unpacking), 1);
  at::Tensor to = tensor_on(engine.allocate_device(bytes).storage(), 0,
                            unpacked_dims(images.sizes().vec(), from, scaling.layout), scaling.dtype);
  if (to.numel() > 0) engine.unpack(images, from, scaling, to);
  return to;
}

/// Throws, because work that is queued on a stream that records a graph becomes part of the graph.
void refuse_recording(const CopyEngine& engine, const c10::Stream& stream) {
  if (!engine.capturing(stream)) return;
  throw FailedPreconditionError("DistributedIterator: the next step was asked for while stream " +
                                std::to_string(stream.id()) + " of " + engine.device().str() +
                                " records a graph. Take the step before the recording begins.");
}

at::Tensor like(const at::Tensor& tensor, const c10::Storage& storage, std::size_t offset) {
  return tensor_on(storage, offset, tensor.sizes(), tensor.scalar_type());
}

/// The copies of one element. Holds the host memory until the device has read it, also after an exception.
class QueuedCopies {
 public:
  QueuedCopies(const DeviceContext& context, std::shared_ptr<std::atomic<std::int64_t>> on_the_way)
      : context_(context), on_the_way_(std::move(on_the_way)) {}
  ~QueuedCopies() {
    if (buffers_.bytes == 0 || sent_) return;
    try {
      send();
    } catch (const std::exception&) {
      new PinnedBuffers(std::move(buffers_));  // leaked: the device failed and may still read them
    }
  }
  QueuedCopies(const QueuedCopies&) = delete;
  QueuedCopies& operator=(const QueuedCopies&) = delete;

  /// Queues the copy of `copy_block`. Returns its block on the device.
  c10::Storage add(const CopyBlock& copy_block, const HostTensors& tensors) {
    CopyEngine& engine = *context_.engine;
    const at::Tensor block = engine.allocate_device(copy_block.bytes);
    const void* const from = load(copy_block, tensors, engine, buffers_);
    buffers_.bytes += static_cast<std::int64_t>(copy_block.bytes);
    engine.copy_async(block, from);
    return block.storage();
  }

  /// An event after all copies; null if there were none.
  Event send() {
    if (buffers_.bytes == 0) return nullptr;
    Event arrived = context_.engine->record(context_.engine->copy_stream());
    context_.in_flight->add(arrived, std::move(buffers_), on_the_way_);
    sent_ = true;
    return arrived;
  }

 private:
  const DeviceContext& context_;
  std::shared_ptr<std::atomic<std::int64_t>> on_the_way_;
  PinnedBuffers buffers_;
  bool sent_ = false;
};

}  // namespace

DeviceContext open_device_context(c10::Device device) {
  static std::mutex mutex;
  // Leaked: drivers may be gone when static objects are destroyed.
  static auto& contexts = *new std::map<std::string, DeviceContext>();
  const std::lock_guard lock(mutex);
  DeviceContext& context = contexts[device.str()];
  if (!context.engine) {
    auto engine = make_c10_copy_engine(device);
    context = {engine, std::make_shared<InFlightCopies>(engine)};
  }
  return context;
}

std::shared_ptr<BufferPool> host_pool_for(c10::Device device) { return page_locked_pool(device); }

std::string unpacking_obstacle(c10::Device device, std::int64_t channels) {
  return unpack_obstacle(device, channels);
}

std::string delivery_limits(c10::Device device) {
  if (!device.is_cuda()) return "";
  const CudaLibrary& cuda = cuda_library();
  return cuda.functions != nullptr
             ? cuda_library_obstacle(device)
             : cuda.missing_because +
                   ": no CUDA graph can be recorded while batches are copied to the device";
}

DeviceStager::DeviceStager(DeviceContext context, std::int64_t budget,
                           std::optional<ImageNormalization> unpacking)
    : context_(std::move(context)),
      budget_(budget),
      unpacking_(std::move(unpacking)),
      on_the_way_(std::make_shared<std::atomic<std::int64_t>>(0)) {}

DeviceStager::~DeviceStager() {
  if (!delivered_) return;
  try {
    TORCH_CHECK(!fork_guard_.inherited(), "a forked child must not use its parent's device");
    for (const c10::Storage& block : delivered_->blocks)
      context_.engine->record_stream(block, delivered_->stream);
  } catch (const std::exception&) {
    // The device failed, or this is a forked child and the memory is the parent's: it must not be freed here.
    new Delivered(std::move(*delivered_));
  }
}

bool DeviceStager::has_room(std::int64_t bytes) const {
  const std::int64_t there = on_the_way_->load();
  return there == 0 || there + bytes <= budget_;
}

void DeviceStager::collect() { context_.in_flight->collect(); }

StagedPtr DeviceStager::try_stage(const Element& element) {
  collect();
  return has_room(element.bytes()) ? begin(element) : nullptr;
}

StagedPtr DeviceStager::stage(const Element& element, const std::function<void()>& poll) {
  constexpr std::chrono::microseconds kPause{100};
  constexpr int kPausesAPoll = 500;
  for (int pauses = 1;; ++pauses) {
    if (StagedPtr staged = try_stage(element)) return staged;
    std::this_thread::sleep_for(kPause);
    if (poll && pauses % kPausesAPoll == 0) poll();
  }
}

std::vector<std::size_t> DeviceStager::images_in(const HostTensors& tensors) const {
  if (!unpacking_) return {};
  std::vector<std::size_t> images;
  for (const std::size_t i : tensors.whole_leaves) {
    const at::Tensor& host = tensors.tensors[i];
    if (unpacking_->applies_to(host.scalar_type(), static_cast<std::size_t>(host.dim()))) images.push_back(i);
  }
  return images;
}

void DeviceStager::reserve(const std::vector<CopyBlock>& copy_blocks,
                           const std::vector<std::size_t>& unpacked) {
  constexpr std::int64_t kMaxAhead = 8;
  std::int64_t bytes = 1;
  for (const CopyBlock& copy_block : copy_blocks) bytes += static_cast<std::int64_t>(copy_block.bytes);
  // Elements in flight, one that is being built and one that the consumer holds.
  const std::int64_t count = std::clamp<std::int64_t>(budget_ / bytes, 1, kMaxAhead) + 2;
  std::vector<Block> blocks;
  std::vector<at::Tensor> device_blocks;
  try {
    for (std::int64_t i = 0; i < count; ++i) {
      for (const CopyBlock& copy_block : copy_blocks) {
        if (copy_block.lies_at == nullptr)
          blocks.push_back(context_.engine->host_pool()->acquire(copy_block.bytes));
        device_blocks.push_back(context_.engine->allocate_device(copy_block.bytes));
      }
      for (const std::size_t size : unpacked) device_blocks.push_back(context_.engine->allocate_device(size));
    }
  } catch (const std::exception&) {
    // Fewer blocks will do. A batch that lacks memory allocates its own and reports the error.
  }
}

StagedPtr DeviceStager::begin(const Element& element) {
  CopyEngine& engine = *context_.engine;
  refuse_recording(engine, engine.copy_stream());
  const HostTensors tensors = host_tensors_of(element);
  const std::vector<CopyBlock> copy_blocks = pack_for(engine, tensors);
  const std::vector<std::size_t> images = images_in(tensors);
  std::call_once(reserved_, [&] {
    std::vector<std::size_t> unpacked;
    for (const std::size_t i : images) unpacked.push_back(unpacked_bytes(tensors.tensors[i], *unpacking_));
    reserve(copy_blocks, unpacked);
  });
  auto staged = std::make_shared<Staged>();
  std::vector<at::Tensor> arrived(tensors.tensors.size());
  QueuedCopies copies(context_, on_the_way_);
  for (const CopyBlock& copy_block : copy_blocks) {
    const c10::Storage& block = staged->blocks.emplace_back(copies.add(copy_block, tensors));
    for (const CopyBlock::Piece& piece : copy_block.pieces)
      arrived[piece.tensor] = like(tensors.tensors[piece.tensor], block, piece.offset);
  }
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    // Tensors without data need a storage on the device as well.
    if (!arrived[i].defined()) arrived[i] = like(tensors.tensors[i], engine.allocate_device(1).storage(), 0);
  }
  for (const std::size_t i : images) {
    arrived[i] = unpack(arrived[i], *unpacking_, engine);
    staged->blocks.push_back(arrived[i].storage());
  }
  // Blocks that held only packed images are released: work queued later on the copy stream may reuse them.
  std::erase_if(staged->blocks, [](const c10::Storage& block) { return block.use_count() == 1; });
  staged->arrived = copies.send();
  staged->element = with_host_tensors(element, arrived);
  return staged;
}

Element DeviceStager::deliver(const StagedPtr& staged) {
  CopyEngine& engine = *context_.engine;
  const c10::Stream stream = engine.current_stream();
  refuse_recording(engine, stream);
  if (staged->arrived) engine.wait(stream, staged->arrived);
  take_back(stream);
  delivered_.emplace(Delivered{staged->blocks, stream});
  return staged->element;
}

void DeviceStager::take_back(const c10::Stream& now) {
  if (!delivered_) return;
  CopyEngine& engine = *context_.engine;
  auto& blocks = delivered_->blocks;
  // The consumer may still use a block that it holds, so the allocator must check the stream when the block
  // is released. The same holds if that stream now records a graph: it cannot be queried before the recording
  // ends.
  const bool records = engine.capturing(delivered_->stream);
  for (const c10::Storage& block : blocks) {
    if (block.use_count() == 1 && !records) continue;
    engine.record_stream(block, delivered_->stream);
    if (now != delivered_->stream) engine.record_stream(block, now);
  }
  if (!records) engine.wait(engine.copy_stream(), engine.record(delivered_->stream));
  if (now != delivered_->stream) engine.wait(engine.copy_stream(), engine.record(now));
  delivered_.reset();
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/stager.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/tensor_on.h"
#include "device/copy_engine.h"
#include "device/cuda_library.h"
#include "device/page_locked.h"
#include "device/parcel.h"
#include "device/transit.h"
#include "device/unpack_op.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

struct Staged {
  Element element;
  std::vector<c10::Storage> blocks;
  Event arrived;  // null where there was nothing to copy
};

namespace {

std::size_t unpacked_bytes(const at::Tensor& images, const ImageNormalization& unpacking) {
  return static_cast<std::size_t>(images.numel()) * c10::elementSize(unpacking.scaling.dtype);
}

/// Host memory with the pieces of `parcel`, kept by `cargo`.
const void* load(const Parcel& parcel, const Freight& freight, CopyEngine& engine, Cargo& cargo) {
  const at::Tensor& first = freight.tensors[parcel.pieces.front().tensor];
  if (parcel.lies_at != nullptr && engine.reads_directly(first)) {
    cargo.tensors.push_back(first);
    return parcel.lies_at;
  }
  Block& block = cargo.blocks.emplace_back(engine.host_pool()->acquire(parcel.bytes));
  put_together(parcel, freight, static_cast<char*>(block.data()));
  return block.data();
}

/// What `images` become, which are on the device or on their way.
at::Tensor unpack(const at::Tensor& images, const ImageNormalization& unpacking, CopyEngine& engine) {
  const ImageScaling& scaling = unpacking.scaling;
  const ChannelDim from = find_channels(images.sizes(), scaling.channels(), "a batch of images");
  const std::size_t bytes = std::max<std::size_t>(unpacked_bytes(images, unpacking), 1);
  at::Tensor to = tensor_on(engine.allocate_device(bytes).storage(), 0,
                            unpacked_dims(images.sizes().vec(), from, scaling.layout), scaling.dtype);
  if (to.numel() > 0) engine.unpack(images, from, scaling, to);
  return to;
}

/// What is queued on a stream that records a graph becomes part of that instead of being done.
void refuse_recording(const CopyEngine& engine, const c10::Stream& stream) {
  if (!engine.capturing(stream)) return;
  throw FailedPreconditionError("DistributedIterator: the next step was asked for while stream " +
                                std::to_string(stream.id()) + " of " + engine.device().str() +
                                " records a graph. Take the step before the recording begins.");
}

at::Tensor like(const at::Tensor& tensor, const c10::Storage& storage, std::size_t offset) {
  return tensor_on(storage, offset, tensor.sizes(), tensor.scalar_type());
}

/// One element's copies. However it ends, what the device reads is kept until it has read it.
class Shipment {
 public:
  Shipment(const Dock& dock, std::shared_ptr<std::atomic<std::int64_t>> on_the_way)
      : dock_(dock), on_the_way_(std::move(on_the_way)) {}
  ~Shipment() {
    if (cargo_.bytes == 0 || sent_) return;
    try {
      send();
    } catch (const std::exception&) {
      new Cargo(std::move(cargo_));  // the device is gone and may or may not be reading
    }
  }
  Shipment(const Shipment&) = delete;
  Shipment& operator=(const Shipment&) = delete;

  /// The block on the device to which `parcel` is copied.
  c10::Storage add(const Parcel& parcel, const Freight& freight) {
    CopyEngine& engine = *dock_.engine;
    const at::Tensor block = engine.allocate_device(parcel.bytes);
    const void* const from = load(parcel, freight, engine, cargo_);
    cargo_.bytes += static_cast<std::int64_t>(parcel.bytes);
    engine.copy_async(block, from);
    return block.storage();
  }

  /// After the last parcel; null where there was none.
  Event send() {
    if (cargo_.bytes == 0) return nullptr;
    Event arrived = dock_.engine->record(dock_.engine->copy_stream());
    dock_.transit->add(arrived, std::move(cargo_), on_the_way_);
    sent_ = true;
    return arrived;
  }

 private:
  const Dock& dock_;
  std::shared_ptr<std::atomic<std::int64_t>> on_the_way_;
  Cargo cargo_;
  bool sent_ = false;
};

}  // namespace

Dock open_dock(c10::Device device) {
  static std::mutex mutex;
  // Leaked: drivers may be gone when static objects are destroyed.
  static auto& docks = *new std::map<std::string, Dock>();
  const std::lock_guard lock(mutex);
  Dock& dock = docks[device.str()];
  if (!dock.engine) {
    auto engine = make_c10_engine(device);
    dock = {engine, std::make_shared<Transit>(engine)};
  }
  return dock;
}

std::shared_ptr<BufferPool> host_pool_for(c10::Device device) { return page_locked_pool(device.type()); }

std::string unpacking_obstacle(c10::Device device, std::int64_t channels) {
  return unpack_obstacle(device, channels);
}

std::string delivery_limits(c10::Device device) {
  if (!device.is_cuda()) return "";
  const CudaLibrary& cuda = cuda_library();
  return cuda.functions != nullptr
             ? cuda_library_obstacle(device)
             : cuda.missing_because + ": no CUDA graph can be recorded while batches are on their way";
}

Stager::Stager(Dock dock, std::int64_t budget, std::optional<ImageNormalization> unpacking)
    : dock_(std::move(dock)),
      budget_(budget),
      unpacking_(std::move(unpacking)),
      on_the_way_(std::make_shared<std::atomic<std::int64_t>>(0)),
      process_(::getpid()) {}

Stager::~Stager() {
  if (!delivered_) return;
  try {
    TORCH_CHECK(process_ == ::getpid(), "a forked child has no part in its parent's device");
    for (const c10::Storage& block : delivered_->blocks) dock_.engine->hold_for(block, delivered_->stream);
  } catch (const std::exception&) {
    // The device is gone, or it is the parent's: its memory is not ours to give back.
    new Delivered(std::move(*delivered_));
  }
}

bool Stager::has_room(std::int64_t bytes) const {
  const std::int64_t there = on_the_way_->load();
  return there == 0 || there + bytes <= budget_;
}

StagedPtr Stager::try_stage(const Element& element) {
  dock_.transit->collect();
  return has_room(element.bytes()) ? begin(element) : nullptr;
}

StagedPtr Stager::stage(const Element& element, const std::function<void()>& poll) {
  constexpr std::chrono::microseconds kPause{100};
  constexpr int kPausesAPoll = 500;
  for (int pauses = 1;; ++pauses) {
    if (StagedPtr staged = try_stage(element)) return staged;
    std::this_thread::sleep_for(kPause);
    if (poll && pauses % kPausesAPoll == 0) poll();
  }
}

std::vector<std::size_t> Stager::images_in(const Freight& freight) const {
  if (!unpacking_) return {};
  std::vector<std::size_t> images;
  for (const std::size_t i : freight.whole_leaves) {
    const at::Tensor& host = freight.tensors[i];
    if (unpacking_->applies_to(host.scalar_type(), static_cast<std::size_t>(host.dim()))) images.push_back(i);
  }
  return images;
}

void Stager::reserve(const std::vector<Parcel>& parcels, const std::vector<std::size_t>& unpacked) {
  constexpr std::int64_t kMostAhead = 8;
  std::int64_t bytes = 1;
  for (const Parcel& parcel : parcels) bytes += static_cast<std::int64_t>(parcel.bytes);
  // What is built, on the way and with the consumer at a time.
  const std::int64_t count = std::clamp<std::int64_t>(budget_ / bytes, 1, kMostAhead) + 2;
  std::vector<Block> blocks;
  std::vector<at::Tensor> device_blocks;
  try {
    for (std::int64_t i = 0; i < count; ++i) {
      for (const Parcel& parcel : parcels) {
        blocks.push_back(dock_.engine->host_pool()->acquire(parcel.bytes));
        device_blocks.push_back(dock_.engine->allocate_device(parcel.bytes));
      }
      for (const std::size_t size : unpacked) device_blocks.push_back(dock_.engine->allocate_device(size));
    }
  } catch (const std::exception&) {
    // Fewer have to do. What one batch cannot do without, it asks for itself, and reports.
  }
}

StagedPtr Stager::begin(const Element& element) {
  CopyEngine& engine = *dock_.engine;
  refuse_recording(engine, engine.copy_stream());
  const Freight freight = freight_of(element);
  const std::vector<Parcel> parcels = pack(freight);
  const std::vector<std::size_t> images = images_in(freight);
  std::call_once(reserved_, [&] {
    std::vector<std::size_t> unpacked;
    for (const std::size_t i : images) unpacked.push_back(unpacked_bytes(freight.tensors[i], *unpacking_));
    reserve(parcels, unpacked);
  });
  auto staged = std::make_shared<Staged>();
  std::vector<at::Tensor> arrived(freight.tensors.size());
  Shipment shipment(dock_, on_the_way_);
  for (const Parcel& parcel : parcels) {
    const c10::Storage& block = staged->blocks.emplace_back(shipment.add(parcel, freight));
    for (const Parcel::Piece& piece : parcel.pieces)
      arrived[piece.tensor] = like(freight.tensors[piece.tensor], block, piece.offset);
  }
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    // Tensors without data have memory too, if hardly any.
    if (!arrived[i].defined()) arrived[i] = like(freight.tensors[i], engine.allocate_device(1).storage(), 0);
  }
  for (const std::size_t i : images) {
    arrived[i] = unpack(arrived[i], *unpacking_, engine);
    staged->blocks.push_back(arrived[i].storage());
  }
  // The bytes of what was unpacked: nothing queued later on the copy stream gets at them too early.
  std::erase_if(staged->blocks, [](const c10::Storage& block) { return block.use_count() == 1; });
  staged->arrived = shipment.send();
  staged->element = with_freight(element, arrived);
  return staged;
}

Element Stager::deliver(const StagedPtr& staged) {
  CopyEngine& engine = *dock_.engine;
  const c10::Stream stream = engine.current_stream();
  refuse_recording(engine, stream);
  if (staged->arrived) engine.wait(stream, staged->arrived);
  take_back(stream);
  delivered_.emplace(Delivered{staged->blocks, stream});
  return staged->element;
}

void Stager::take_back(const c10::Stream& now) {
  if (!delivered_) return;
  CopyEngine& engine = *dock_.engine;
  auto& blocks = delivered_->blocks;
  // What somebody still holds may be in use later: the allocator has to ask the stream then. It also asks a
  // stream that records a graph by now, which nobody may ask before the recording is over.
  const bool records = engine.capturing(delivered_->stream);
  for (const c10::Storage& block : blocks) {
    if (block.use_count() == 1 && !records) continue;
    engine.hold_for(block, delivered_->stream);
    if (now != delivered_->stream) engine.hold_for(block, now);
  }
  if (!records) engine.wait(engine.copy_stream(), engine.record(delivered_->stream));
  if (now != delivered_->stream) engine.wait(engine.copy_stream(), engine.record(now));
  delivered_.reset();
}

}  // namespace torch_distinput

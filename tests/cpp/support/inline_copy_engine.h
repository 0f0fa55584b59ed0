// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include <ATen/ops/from_blob.h>

#include "device/transfer/copy_engine.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {

/// An engine that copies to host memory of `pool` and is done when a call returns.
class InlineCopyEngine final : public CopyEngine {
 public:
  explicit InlineCopyEngine(std::shared_ptr<BufferPool> pool) : pool_(std::move(pool)) {}

  c10::Device device() const override { return c10::kCPU; }
  const std::shared_ptr<BufferPool>& host_pool() const override { return pool_; }
  bool reads_directly(const at::Tensor&) const override { return true; }

  at::Tensor allocate_device(std::size_t bytes) override {
    Block block = pool_->acquire(bytes);
    void* const data = block.data();
    void* const context = block.detach();
    return at::from_blob(
        data, {static_cast<std::int64_t>(bytes)}, [context](void*) { Block::reclaim(context); }, at::kByte);
  }
  void copy_async(const at::Tensor& to, const void* from) override {
    std::memcpy(to.mutable_data_ptr(), from, to.nbytes());
  }
  void unpack(const at::Tensor& from, ChannelDim channels, const ImageScaling& scaling,
              at::Tensor& to) override {
    to.copy_(unpack_images(from, channels, scaling, {}, *pool_));
  }

  c10::Stream copy_stream() const override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kCPU));
  }
  c10::Stream current_stream() const override { return copy_stream(); }
  bool capturing(const c10::Stream&) const override { return false; }
  Event record(const c10::Stream&) override { return nullptr; }
  void wait(const c10::Stream&, const Event&) override {}
  bool query(const Event&) override { return true; }
  void record_stream(const c10::Storage&, const c10::Stream&) override {}

 private:
  std::shared_ptr<BufferPool> pool_;
};

}  // namespace torch_distinput

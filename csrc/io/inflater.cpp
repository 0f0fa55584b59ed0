// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/inflater.h"

#include <algorithm>
#include <limits>
#include <new>

#include "io/zlib_abi.h"

namespace torch_distinput {
namespace {

// The values of zlib.h, which is not included (see io/zlib_abi.h).
constexpr int kNoFlush = 0;
constexpr int kOk = 0;
constexpr int kStreamEnd = 1;
constexpr int kBufferError = -5;
constexpr int kMemoryError = -4;
constexpr int kWindowBits = 15;
constexpr int kGzipOnly = 16;

unsigned int clamped(std::size_t size) {
  return static_cast<unsigned int>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
}

}  // namespace

Inflater::Inflater(Compression compression)
    : stream_(std::make_unique<TdiZStream>()), members_(compression == Compression::kGzip) {
  const int bits = members_ ? kWindowBits + kGzipOnly : kWindowBits;
  if (inflateInit2_(stream_.get(), bits, zlibVersion(), sizeof(TdiZStream)) != kOk) throw std::bad_alloc();
}

Inflater::~Inflater() { inflateEnd(stream_.get()); }

Inflater::Progress Inflater::step(std::span<const char> in, std::span<char> out) {
  if (out.empty()) return {};
  if (between_) {
    if (in.empty()) return {};
    if (begun_ && !members_) return {.problem = "there are further bytes after the compressed data"};
    inflateReset(stream_.get());
    between_ = false;
    begun_ = true;
  }
  stream_->next_in = reinterpret_cast<const unsigned char*>(in.data());
  stream_->avail_in = clamped(in.size());
  stream_->next_out = reinterpret_cast<unsigned char*>(out.data());
  stream_->avail_out = clamped(out.size());
  const int result = inflate(stream_.get(), kNoFlush);
  Progress progress{.used = clamped(in.size()) - stream_->avail_in,
                    .made = clamped(out.size()) - stream_->avail_out};
  if (result == kMemoryError) throw std::bad_alloc();
  if (result == kStreamEnd) {
    between_ = true;
  } else if (result != kOk && result != kBufferError) {
    progress.problem = std::string("the compressed data are damaged: ") +
                       (stream_->msg != nullptr ? stream_->msg : "unknown reason");
  }
  if (in.empty() && !between_ && progress.made == 0 && progress.problem.empty()) {
    progress.problem = "the compressed data end too early";
  }
  return progress;
}

}  // namespace torch_distinput

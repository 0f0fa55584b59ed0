// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/record_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "io/crc32c.h"
#include "io/file_error.h"
#include "io/zlib_abi.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kRecordWriterBuffer = std::size_t{256} << 10;

// The values of zlib.h, which is not included (see io/zlib_abi.h).
constexpr int kDeflateNoFlush = 0;
constexpr int kDeflateFinish = 4;
constexpr int kDeflateOk = 0;
constexpr int kDeflateStreamEnd = 1;
constexpr int kDefaultLevel = -1;
constexpr int kDeflated = 8;
constexpr int kDeflateWindowBits = 15;
constexpr int kDeflateGzip = 16;
constexpr int kDeflateMemory = 8;

std::unique_ptr<TdiZStream> deflate_stream(Compression compression) {
  if (compression == Compression::kNone) return nullptr;
  auto stream = std::make_unique<TdiZStream>();
  const int bits = kDeflateWindowBits + (compression == Compression::kGzip ? kDeflateGzip : 0);
  if (deflateInit2_(stream.get(), kDefaultLevel, kDeflated, bits, kDeflateMemory, 0, zlibVersion(),
                    sizeof(TdiZStream)) != kDeflateOk)
    throw std::bad_alloc();
  return stream;
}

template <class Int>
std::array<char, sizeof(Int)> bytes_of_int(Int value) {
  std::array<char, sizeof(Int)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

int open_for_writing(const std::string& path, const Poll& poll) {
  while (true) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor >= 0) return descriptor;
    if (errno != EINTR) throw_system_error(path, "write", errno);
    if (poll) poll();
  }
}

}  // namespace

RecordWriter::RecordWriter(std::string path, Compression compression, const Poll& poll)
    : path_(std::move(path)), descriptor_(-1), stream_(deflate_stream(compression)) {
  buffer_.reserve(kRecordWriterBuffer);
  try {
    descriptor_ = open_for_writing(path_, poll);
  } catch (...) {
    if (stream_ != nullptr) deflateEnd(stream_.get());
    throw;
  }
}

RecordWriter::~RecordWriter() {
  try {
    close();
  } catch (...) {
    // A destructor has no caller to tell.
  }
}

void RecordWriter::write(std::span<const char> data) {
  const auto length = bytes_of_int(static_cast<std::uint64_t>(data.size()));
  append(length);
  append(bytes_of_int(mask_crc(crc32c(length))));
  append(data);
  append(bytes_of_int(mask_crc(crc32c(data))));
}

void RecordWriter::append(std::span<const char> bytes) {
  if (buffer_.size() + bytes.size() > kRecordWriterBuffer) flush(/*last=*/false);
  if (bytes.size() > kRecordWriterBuffer && stream_ == nullptr) {
    write_out(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void RecordWriter::flush(bool last) {
  if (stream_ != nullptr) {
    deflate_buffer(last);
  } else {
    write_out(buffer_);
  }
  buffer_.clear();
}

void RecordWriter::deflate_buffer(bool last) {
  std::vector<char> packed(kRecordWriterBuffer);
  std::span<const char> rest(buffer_);
  while (true) {
    const std::size_t piece = std::min<std::size_t>(rest.size(), std::size_t{1} << 30);
    stream_->next_in = reinterpret_cast<const unsigned char*>(rest.data());
    stream_->avail_in = static_cast<unsigned int>(piece);
    stream_->next_out = reinterpret_cast<unsigned char*>(packed.data());
    stream_->avail_out = static_cast<unsigned int>(packed.size());
    const bool ends = last && piece == rest.size();
    const int result = deflate(stream_.get(), ends ? kDeflateFinish : kDeflateNoFlush);
    rest = rest.subspan(piece - stream_->avail_in);
    const std::size_t made = packed.size() - stream_->avail_out;
    write_out(std::span(packed).first(made));
    if (result == kDeflateStreamEnd || (!ends && rest.empty() && made < packed.size())) return;
  }
}

void RecordWriter::write_out(std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error(path_, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void RecordWriter::close() {
  if (!is_open()) return;
  std::exception_ptr error;
  try {
    flush(/*last=*/true);
  } catch (...) {
    error = std::current_exception();
  }
  if (stream_ != nullptr) deflateEnd(stream_.get());
  const int result = ::close(std::exchange(descriptor_, -1));
  if (error) std::rethrow_exception(error);
  if (result != 0) throw_system_error(path_, "write", errno);
}

}  // namespace torch_distinput

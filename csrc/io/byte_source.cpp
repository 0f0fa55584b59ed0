// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/byte_source.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "io/file_error.h"
#include "io/inflater.h"
#include "remote/ahead_claim.h"
#include "remote/range_plan.h"
#include "remote/remote_object.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kByteSourcePiece = std::size_t{256} << 10;
/// So much is asked of a server first: perhaps only the first records are wanted.
constexpr std::uint64_t kFirstStep = std::uint64_t{1} << 20;

class PlainBytes final : public ByteSource {
 public:
  PlainBytes(FilePtr file, std::uint64_t offset, Poll poll)
      : file_(std::move(file)),
        opened_(file_->stamp()),
        offset_(offset),
        asked_(offset),
        step_(file_->is_remote() ? kFirstStep : file_->ahead()),
        poll_(std::move(poll)) {}

  std::size_t read(std::span<char> into) override {
    if (!opened_.is_regular) return file_->read_next(into, poll_);
    if (offset_ + step_ / 2 >= asked_) {
      const AheadClaim::Scope asks(claim_);
      file_->will_read(asked_, step_);
      asked_ += step_;
      step_ = std::min(2 * step_, file_->ahead());
    }
    const std::size_t count = file_->read(into, offset_);
    offset_ += count;
    // A file that has grown since it was opened is not an error: it is read up to its current end.
    if (count == 0 && offset_ < opened_.size) {
      throw FileError(FileError::Kind::kChanged, file_->path(),
                      "the file became shorter while it was read: it had " + std::to_string(opened_.size) +
                          " bytes when it was opened, but now ends at byte " +
                          std::to_string(file_->stamp().size));
    }
    return count;
  }

 private:
  FilePtr file_;
  FileStamp opened_;  ///< the stamp of the file when it was opened
  std::uint64_t offset_;
  std::uint64_t asked_;  ///< the end of the bytes that were asked for in advance
  std::uint64_t step_;   ///< how many are asked for next
  Poll poll_;
  AheadClaim claim_;
};

class InflatedBytes final : public ByteSource {
 public:
  InflatedBytes(FilePtr file, Compression compression, Poll poll)
      : path_(file->path()),
        packed_(std::move(file), 0, std::move(poll)),
        inflater_(compression),
        piece_(kByteSourcePiece) {}

  std::size_t read(std::span<char> into) override {
    if (!problem_.empty()) throw FileError(path_, offset_, problem_);
    std::size_t done = 0;
    while (done < into.size()) {
      // Return the bytes unpacked so far instead of waiting for more input, which may be a pipe.
      if (left_.empty() && done > 0) break;
      if (left_.empty()) left_ = std::span(piece_).first(packed_.read(piece_));
      const Inflater::Progress progress = inflater_.step(left_, into.subspan(done));
      left_ = left_.subspan(progress.used);
      offset_ += progress.used;
      done += progress.made;
      problem_ = progress.problem;
      if (!problem_.empty() || (progress.used == 0 && progress.made == 0)) break;
    }
    // The bytes before the damage are returned first; the next call throws.
    if (done == 0 && !problem_.empty()) throw FileError(path_, offset_, problem_);
    return done;
  }

 private:
  std::string path_;
  PlainBytes packed_;
  Inflater inflater_;
  std::vector<char> piece_;
  std::span<char> left_;      ///< the bytes of `piece_` that are not unpacked yet
  std::uint64_t offset_ = 0;  ///< the position in the compressed file
  std::string problem_;       ///< why there are no further bytes; empty while there may be some
};

void skip_bytes(ByteSource& source, std::uint64_t count, const std::string& path) {
  std::vector<char> scratch(kByteSourcePiece);
  while (count > 0) {
    const std::size_t some = source.read(
        std::span(scratch).first(static_cast<std::size_t>(std::min<std::uint64_t>(count, kByteSourcePiece))));
    if (some == 0) {
      throw FileError(FileError::Kind::kChanged, path,
                      "the file ends " + std::to_string(count) + " bytes before the position to resume from");
    }
    count -= some;
  }
}

}  // namespace

std::uint64_t requests_in_order(std::uint64_t size) noexcept {
  const std::uint64_t most = RangeRules().most;
  std::uint64_t requests = 0;
  std::uint64_t step = kFirstStep;
  for (std::uint64_t asked = 0; asked < size; step = std::min(2 * step, kRemoteAhead)) {
    const std::uint64_t part = std::min(step, size - asked);
    requests += (part + most - 1) / most;
    asked += part;
  }
  return requests;
}

std::unique_ptr<ByteSource> open_bytes(FilePtr file, Compression compression, std::uint64_t offset,
                                       Poll poll) {
  const std::string path = file->path();
  if (compression == Compression::kNone && file->stamp().is_regular) {
    if (char before; offset > 0 && file->read({&before, 1}, offset - 1) == 0) {
      throw FileError(
          FileError::Kind::kChanged, path,
          "the file ends before byte " + std::to_string(offset) + ", the position to resume from");
    }
    return std::make_unique<PlainBytes>(std::move(file), offset, std::move(poll));
  }
  std::unique_ptr<ByteSource> source;
  if (compression == Compression::kNone) {
    source = std::make_unique<PlainBytes>(std::move(file), 0, std::move(poll));
  } else {
    source = std::make_unique<InflatedBytes>(std::move(file), compression, std::move(poll));
  }
  skip_bytes(*source, offset, path);
  return source;
}

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/record_fetcher.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "io/file_error.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

/// Open files of one fetcher: few enough that several iterators stay below a process's usual limit of 1024.
constexpr std::size_t kMaxOpen = 64;
/// Adjacent records are read together up to this many bytes, so that they are still in the processor's cache
/// when they are copied.
constexpr std::uint64_t kMaxTogether = std::uint64_t{256} << 10;
/// Records from this size on are read alone, directly into the caller's memory.
constexpr std::uint64_t kAlone = std::uint64_t{32} << 10;

/// Memory for the raw bytes of one run, kept by each thread. A run is shorter than kMaxTogether + kAlone.
std::vector<char>& scratch(std::uint64_t bytes) {
  thread_local std::vector<char> memory;
  if (memory.size() < bytes) memory.resize(static_cast<std::size_t>(bytes));
  return memory;
}

void check_whole(const File& file, std::size_t read, std::uint64_t offset, std::uint64_t wanted) {
  if (read == wanted) return;
  throw FileError(
      FileError::Kind::kChanged, file.path(),
      "the file became shorter after it was indexed: it ends before byte " + std::to_string(offset + wanted));
}

/// Throws FileError unless `raw`, the bytes at `extent`, are one line: a stored index may be that of another
/// file of the same size and time. Records of other formats show it in their framing.
void check_line(const File& file, const RecordIndex& index, const RecordIndex::Extent& extent,
                std::span<const char> raw) {
  if (index.format().kind != RecordKind::kTextLines) return;
  const RecordOffsets& offsets = index.offsets();
  const void* const end = std::memchr(raw.data(), '\n', raw.size());
  const bool is_last = extent.offset + extent.bytes == offsets[offsets.size() - 1];
  if (end == nullptr ? is_last : end == &raw.back()) return;
  throw FileError(FileError::Kind::kChanged, file.path(),
                  "the index stored for it is not its own: bytes " + std::to_string(extent.offset) + " to " +
                      std::to_string(extent.offset + extent.bytes) +
                      " are not one line; remove the index, or change the time of the file");
}

}  // namespace

RecordFetcher::RecordFetcher(std::vector<std::string> files, std::vector<RecordIndexPtr> indexes,
                             std::optional<std::uint64_t> max_record_bytes)
    : files_(std::move(files)),
      indexes_(std::move(indexes)),
      begins_{0},
      handles_(std::make_unique<FileHandles>(kMaxOpen)),
      most_(max_record_bytes),
      is_remote_(std::any_of(files_.begin(), files_.end(), is_url)) {
  for (const RecordIndexPtr& index : indexes_) begins_.push_back(begins_.back() + index->size());
}

std::size_t RecordFetcher::file_of(std::int64_t position) const noexcept {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), position);
  return static_cast<std::size_t>(next - begins_.begin()) - 1;
}

RecordFetcher::RecordOfFile RecordFetcher::record_of_file(std::int64_t position) const noexcept {
  const std::size_t file = file_of(position);
  return {files_[file], position - begins_[file]};
}

std::vector<std::int64_t> RecordFetcher::block_starts(std::uint64_t bytes) const {
  std::vector<std::int64_t> starts;
  for (std::size_t file = 0; file < indexes_.size(); ++file) {
    const RecordIndex& index = *indexes_[file];
    if (index.size() == 0) continue;
    const RecordIndex::Extent last = index.extent(index.size() - 1);
    const std::uint64_t used = last.offset + last.bytes - index.extent(0).offset;
    const auto records = static_cast<std::uint64_t>(index.size());
    const std::uint64_t blocks = std::clamp<std::uint64_t>((used + bytes - 1) / bytes, 1, records);
    const auto a_block = static_cast<std::int64_t>((records + blocks - 1) / blocks);
    for (std::int64_t start = 0; start < index.size(); start += a_block)
      starts.push_back(begins_[file] + start);
  }
  starts.push_back(size());
  return starts;
}

RecordFetcher::Place RecordFetcher::place_of(std::int64_t position) const noexcept {
  const std::size_t file = file_of(position);
  return {file, indexes_[file]->extent(position - begins_[file])};
}

FilePtr RecordFetcher::open(std::size_t file) const {
  FilePtr opened = handles_->get(static_cast<std::int64_t>(file), files_[file]);
  if (opened->stamp() != indexes_[file]->stamp()) {
    throw FileError(
        FileError::Kind::kChanged, files_[file],
        "the file changed since it was indexed; create the dataset again to read its new contents");
  }
  return opened;
}

std::uint64_t RecordFetcher::most_bytes(std::span<const std::int64_t> positions) const {
  std::uint64_t bytes = 0;
  for (const std::int64_t position : positions) {
    const Place place = place_of(position);
    const RecordFormat& format = indexes_[place.file]->format();
    // The last line may lack its end; nothing else of a record is optional.
    const std::uint64_t line_end = format.kind == RecordKind::kTextLines ? 1 : 0;
    if (most_ && most_contents(format, place.extent.bytes) > *most_ + line_end)
      throw FileError(files_[place.file], place.extent.offset, too_large(format, *most_));
    bytes += most_contents(format, place.extent.bytes);
  }
  return bytes;
}

void RecordFetcher::will_fetch(std::span<const std::int64_t> positions) const {
  if (!is_remote_) return;
  std::map<std::size_t, std::vector<ByteRange>> wanted;
  for (const std::int64_t position : positions) {
    const Place place = place_of(position);
    wanted[place.file].push_back({place.extent.offset, place.extent.bytes});
  }
  for (const auto& [file, ranges] : wanted) open(file)->will_read(ranges);
}

std::uint64_t RecordFetcher::fetch(std::span<const std::int64_t> positions, char* to,
                                   std::span<std::int64_t> sizes) const {
  will_fetch(positions);
  std::uint64_t written = 0;
  std::vector<Place> run;
  FilePtr file;
  std::size_t open_file = files_.size();
  for (std::size_t next = 0; next < positions.size(); next += run.size()) {
    run.assign(1, place_of(positions[next]));
    std::uint64_t end = run.front().extent.offset + run.front().extent.bytes;
    while (next + run.size() < positions.size() && end - run.front().extent.offset < kMaxTogether) {
      const Place place = place_of(positions[next + run.size()]);
      if (place.file != run.front().file || place.extent.offset != end || place.extent.bytes >= kAlone) break;
      run.push_back(place);
      end += place.extent.bytes;
    }
    if (run.front().file != open_file) {
      open_file = run.front().file;
      file = open(open_file);
    }
    const auto run_sizes = sizes.subspan(next, run.size());
    if (run.size() == 1 && run.front().extent.bytes >= kAlone) {
      const std::uint64_t size = fetch_one(*file, run.front(), to + written);
      run_sizes.front() = static_cast<std::int64_t>(size);
      written += size;
    } else {
      written += fetch_run(*file, run, to + written, run_sizes);
    }
  }
  return written;
}

std::uint64_t RecordFetcher::fetch_run(const File& file, std::span<const Place> run, char* to,
                                       std::span<std::int64_t> sizes) const {
  const RecordIndex& index = *indexes_[run.front().file];
  const RecordFormat& format = index.format();
  const std::uint64_t begin = run.front().extent.offset;
  const std::uint64_t bytes = run.back().extent.offset + run.back().extent.bytes - begin;
  const auto raw = std::span(scratch(bytes)).first(static_cast<std::size_t>(bytes));
  check_whole(file, file.read(raw, begin), begin, bytes);
  const bool plain = is_plain_text(format, raw);
  std::uint64_t written = 0;
  for (std::size_t i = 0; i < run.size(); ++i) {
    const auto [offset, size] = run[i].extent;
    const auto record = raw.subspan(static_cast<std::size_t>(offset - begin), static_cast<std::size_t>(size));
    check_line(file, index, run[i].extent, record);
    std::uint64_t contents = plain ? size - (record.back() == '\n' ? 1 : 0) : 0;
    if (plain) {
      std::memcpy(to + written, record.data(), static_cast<std::size_t>(contents));
    } else {
      contents = extract_contents(format, record, to + written, file.path(), offset);
    }
    sizes[i] = static_cast<std::int64_t>(contents);
    written += contents;
  }
  return written;
}

std::uint64_t RecordFetcher::fetch_one(const File& file, const Place& place, char* to) const {
  const RecordFormat& format = indexes_[place.file]->format();
  const auto [offset, bytes] = place.extent;
  const std::span<char> contents(to, static_cast<std::size_t>(most_contents(format, bytes)));
  if (format.kind != RecordKind::kTfRecords) {
    check_whole(file, file.read(contents, offset), offset, bytes);
    check_line(file, *indexes_[place.file], place.extent, contents);
    return extract_contents(format, contents, to, file.path(), offset);
  }
  std::array<char, kTfRecordHead> head;
  std::array<char, kTfRecordFoot> foot;
  const std::array<std::span<char>, 3> pieces{head, contents, foot};
  check_whole(file, file.read(pieces, offset), offset, bytes);
  check_tf_record(head, contents, foot, file.path(), offset);
  return contents.size();
}

}  // namespace torch_distinput

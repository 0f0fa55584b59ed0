// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/file_plan.h"

#include <algorithm>
#include <utility>

#include "kernels/rows.h"
#include "sources/records/byte_elements.h"
#include "sources/records/file_errors.h"

namespace torch_distinput {
namespace {

/// Elements read together share at most this much memory: a user who keeps one keeps that of its neighbours.
constexpr std::uint64_t kMaxShared = std::uint64_t{64} << 10;

/// Records that are read near each other have about this many bytes in a file.
constexpr std::uint64_t kBlockBytes = std::uint64_t{8} << 20;

class FilePlan final : public Plan {
 public:
  FilePlan(std::shared_ptr<const RecordFetcher> records, const FileReader& reader,
           std::shared_ptr<BufferPool> pool)
      : records_(std::move(records)), op_(reader.name), is_text_(reader.is_text), pool_(std::move(pool)) {}

  std::int64_t size() const override { return records_->size(); }
  PlanTraits traits() const override { return {.blocks = true, .remote = records_->is_remote()}; }
  SourceRow source_row(std::int64_t row) const override {
    const auto [file, record] = records_->record_of_file(row);
    return {0, file, record};
  }
  void will_read(std::span<std::int64_t> positions) const override { records_->will_fetch(positions); }
  std::vector<std::int64_t> block_starts() const override { return records_->block_starts(kBlockBytes); }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> elements;
    elements.reserve(positions.size());
    while (!positions.empty()) {
      const auto together = positions.first(with_file_errors(op_, [&] { return count_together(positions); }));
      const Read read = read_records(together);
      for (Element& element : string_elements(read.values, read.sizes, is_text_))
        elements.push_back(std::move(element));
      positions = positions.subspan(together.size());
    }
    return elements;
  }

  bool fetches_batches() const override { return true; }
  Element fetch_batch(std::span<std::int64_t> positions) const override {
    const Read read = read_records(positions);
    return string_column(read.values, read.sizes, is_text_, *pool_);
  }

 private:
  /// Records read together: their bytes, and the size of each.
  struct Read {
    at::Tensor values;
    std::vector<std::int64_t> sizes;
  };

  std::size_t count_together(std::span<const std::int64_t> positions) const {
    std::uint64_t bytes = records_->most_bytes(positions.first(1));
    std::size_t count = 1;
    while (count < positions.size()) {
      bytes += records_->most_bytes(positions.subspan(count, 1));
      if (bytes > kMaxShared) break;
      ++count;
    }
    return count;
  }

  Read read_records(std::span<const std::int64_t> positions) const {
    return with_file_errors(op_, [&] {
      const auto most = static_cast<std::int64_t>(records_->most_bytes(positions));
      Read read{pooled_tensor({&most, 1}, at::kByte, *pool_), std::vector<std::int64_t>(positions.size())};
      records_->fetch(positions, static_cast<char*>(read.values.mutable_data_ptr()), read.sizes);
      return read;
    });
  }

  std::shared_ptr<const RecordFetcher> records_;
  std::string op_;
  bool is_text_;
  std::shared_ptr<BufferPool> pool_;
};

}  // namespace

PlanPtr file_plan(std::shared_ptr<const RecordFetcher> records, const FileReader& reader,
                  std::shared_ptr<BufferPool> pool) {
  return std::make_shared<FilePlan>(std::move(records), reader, std::move(pool));
}

}  // namespace torch_distinput

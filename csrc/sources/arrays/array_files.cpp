// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "io/file_error.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "sources/arrays/array_file.h"
#include "sources/arrays/array_sources.h"
#include "sources/arrays/row_files_node.h"
#include "sources/records/file_errors.h"

namespace torch_distinput {
namespace {

const ArrayFile& array_file(const RowFile& file) { return static_cast<const ArrayFile&>(file); }

RowLayout layout_of(const ArrayFile& file) {
  RowLayout layout{file.spec->structure, {}};
  for (const StoredArray& array : file.arrays)
    layout.leaves.push_back({array.dtype, {array.shape.begin() + 1, array.shape.end()}, array.row_bytes()});
  return layout;
}

/// Reads rows straight into batches, those that lie one after the other together.
class ArrayPlan final : public Plan {
 public:
  ArrayPlan(std::string op, std::vector<RowFilePtr> files, std::shared_ptr<BufferPool> pool)
      : op_(std::move(op)),
        layout_(layout_of(array_file(*files.front()))),
        files_(std::move(files)),
        pool_(std::move(pool)) {}

  std::int64_t size() const override { return files_.size(); }
  PlanTraits traits() const override { return {.blocks = true, .remote = files_.is_remote()}; }
  const RowLayout* layout() const override { return &layout_; }
  SourceRow source_row(std::int64_t row) const override { return files_.source_row(row); }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    with_file_errors(op_, [&] {
      will_read(positions);
      FilePtr opened;
      std::size_t number = 0;
      for (std::size_t begin = 0, end = 0; begin < positions.size(); begin = end) {
        const RowFiles::Place place = files_.place_of(positions[begin]);
        end = end_of_run(positions, slots, begin, files_[place.file].rows - place.row);
        if (!opened || number != place.file) {
          opened = files_.open(number = place.file);
          array_file(files_[number]).check->run(opened);
        }
        const auto slot = slots.empty() ? static_cast<std::int64_t>(begin) : slots[begin];
        read_rows(*opened, place, static_cast<std::int64_t>(end - begin), slot, sinks);
      }
    });
  }

  void will_read(std::span<std::int64_t> positions) const override {
    if (!files_.is_remote()) return;
    std::map<std::size_t, std::vector<ByteRange>> wanted;
    for (const std::int64_t position : positions) {
      const RowFiles::Place place = files_.place_of(position);
      for (const StoredArray& array : array_file(files_[place.file]).arrays) {
        if (array.unpacked) continue;
        const auto bytes = static_cast<std::uint64_t>(array.row_bytes());
        wanted[place.file].push_back({array.offset + static_cast<std::uint64_t>(place.row) * bytes, bytes});
      }
    }
    for (const auto& [file, ranges] : wanted) files_.open(file)->will_read(ranges);
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> elements;
    elements.reserve(positions.size());
    for (std::int64_t position : positions) {
      std::vector<Leaf> leaves;
      std::vector<RowSink> sinks;
      for (const LeafLayout& leaf : layout_.leaves) {
        const auto& tensor =
            std::get<at::Tensor>(leaves.emplace_back(pooled_tensor(leaf.shape, leaf.dtype, *pool_)));
        sinks.push_back({static_cast<char*>(tensor.mutable_data_ptr()), leaf.bytes});
      }
      gather({&position, 1}, {}, sinks);
      elements.emplace_back(layout_.structure, std::move(leaves));
    }
    return elements;
  }

 private:
  /// The end of the positions from `begin` on that are consecutive rows of one file, of which `left` remain,
  /// and go to consecutive slots.
  static std::size_t end_of_run(std::span<const std::int64_t> positions, std::span<const std::int64_t> slots,
                                std::size_t begin, std::int64_t left) {
    std::size_t end = begin + 1;
    while (end < positions.size() && static_cast<std::int64_t>(end - begin) < left &&
           positions[end] == positions[end - 1] + 1 && (slots.empty() || slots[end] == slots[end - 1] + 1))
      ++end;
    return end;
  }

  void read_rows(const File& file, const RowFiles::Place& place, std::int64_t count, std::int64_t slot,
                 std::span<const RowSink> sinks) const {
    const std::vector<StoredArray>& arrays = array_file(files_[place.file]).arrays;
    for (std::size_t leaf = 0; leaf < arrays.size(); ++leaf) {
      const std::int64_t bytes = sinks[leaf].row_bytes;
      const std::span<char> to(sinks[leaf].data + slot * bytes, static_cast<std::size_t>(count * bytes));
      const std::uint64_t from = arrays[leaf].offset + static_cast<std::uint64_t>(place.row * bytes);
      if (to.empty()) continue;
      if (arrays[leaf].unpacked) {
        std::memcpy(to.data(), arrays[leaf].unpacked.get() + from, to.size());
      } else {
        read_whole(file, to, from);
      }
    }
  }

  std::string op_;
  RowLayout layout_;
  RowFiles files_;
  std::shared_ptr<BufferPool> pool_;
};

/// No files: no rows, whatever they would be.
class EmptyPlan final : public Plan {
 public:
  std::int64_t size() const override { return 0; }
  std::vector<Element> fetch(std::span<std::int64_t>) const override { return {}; }
};

/// The type of a row of `arrays`: a bare tensor for an array without a name, else a dict.
SpecPtr spec_of_rows(const std::vector<StoredArray>& arrays) {
  ElementSpec spec;
  std::vector<std::string> names;
  for (const StoredArray& array : arrays) {
    names.push_back(array.name);
    spec.leaves.emplace_back(TensorSpec{Dims{array.shape.begin() + 1, array.shape.end()}, array.dtype, {}});
  }
  const bool bare = names.size() == 1 && names.front().empty();
  spec.structure = bare ? Structure::leaf()
                        : Structure::dict(names, std::vector<StructurePtr>(names.size(), Structure::leaf()));
  return std::make_shared<const ElementSpec>(std::move(spec));
}

void check_arrays(const std::string& path, const std::vector<StoredArray>& arrays) {
  if (arrays.empty()) throw FileError(FileError::Kind::kDamaged, path, "it has no arrays");
  for (std::size_t i = 1; i < arrays.size(); ++i) {
    if (arrays[i].name == arrays[i - 1].name)
      throw FileError(FileError::Kind::kDamaged, path, "it has two arrays '" + arrays[i].name + "'");
    if (arrays[i].shape.front() == arrays.front().shape.front()) continue;
    throw FileError(FileError::Kind::kDamaged, path,
                    "its arrays must have the same number of rows, but '" + arrays.front().name + "' has " +
                        std::to_string(arrays.front().shape.front()) + " and '" + arrays[i].name + "' has " +
                        std::to_string(arrays[i].shape.front()));
  }
}

/// Rows without bytes, such as those of shape [n, 0], are as many as the header says, however small the file
/// is: more of them than this are damage.
constexpr std::int64_t kMaxEmptyRows = std::int64_t{1} << 24;

void check_rows(const ArrayFile& file) {
  if (file.rows <= kMaxEmptyRows) return;
  for (const StoredArray& array : file.arrays) {
    if (array.row_bytes() > 0) return;
  }
  throw FileError(FileError::Kind::kDamaged, file.path,
                  "its " + std::to_string(file.rows) + " rows hold no bytes; of such rows a file may have " +
                      std::to_string(kMaxEmptyRows));
}

class ArrayFormat final : public RowFormat {
 public:
  explicit ArrayFormat(ArrayKind kind) : kind_(kind) {}

  std::string name() const override {
    return kind_ == ArrayKind::kNumpy ? "NumpyDataset" : "SafetensorsDataset";
  }
  std::string arguments() const override { return ""; }

  RowFilePtr open(const std::string& path, const std::function<void()>& look) const override {
    const File opened(path);
    const FileStamp stamp = opened.stamp();
    if (!stamp.is_regular)
      throw FileError(FileError::Kind::kSystem, path,
                      "arrays need random access, but this is not a regular file");
    auto file = std::make_shared<ArrayFile>();
    file->arrays = read_arrays(opened, stamp.size, look);
    std::sort(file->arrays.begin(), file->arrays.end(),
              [](const StoredArray& a, const StoredArray& b) { return a.name < b.name; });
    check_arrays(path, file->arrays);
    file->path = file->data_path = path;
    file->stamp = file->data_stamp = stamp;
    file->rows = file->arrays.front().shape.front();
    file->spec = spec_of_rows(file->arrays);
    check_rows(*file);
    std::vector<CheckedPart> parts;
    for (StoredArray& array : file->arrays) {
      if (array.unchecked) parts.push_back(*std::move(array.unchecked));
    }
    file->check = std::make_unique<ContentCheck>(std::move(parts));
    return file;
  }

  PlanPtr plan(std::vector<RowFilePtr> files, std::shared_ptr<BufferPool> pool) const override {
    if (files.empty()) return std::make_shared<EmptyPlan>();
    return std::make_shared<ArrayPlan>(name(), std::move(files), std::move(pool));
  }
  void check(const RowFile& file) const override {
    array_file(file).check->run(std::make_shared<const File>(file.data_path));
  }

 private:
  std::vector<StoredArray> read_arrays(const File& file, std::uint64_t size,
                                       const std::function<void()>& look) const {
    const Stretch bytes(file, 0, size);
    if (kind_ == ArrayKind::kSafetensors) return read_safetensors(bytes);
    const bool is_archive = size >= 2 && bytes.read(0, 2) == "PK";
    if (is_archive) return read_npz(file, size, look);
    return {read_npy(bytes)};
  }

  ArrayKind kind_;
};

}  // namespace

namespace sources {

NodePtr array_files(NodePtr names, ArrayKind kind) {
  return read_row_files(std::move(names), std::make_shared<const ArrayFormat>(kind));
}

}  // namespace sources
}  // namespace torch_distinput

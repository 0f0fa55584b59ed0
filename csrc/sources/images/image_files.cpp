// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "execution/reads_files.h"
#include "io/file.h"
#include "kernels/rows.h"
#include "remote/url.h"
#include "sources/records/file_errors.h"
#include "sources/rows_one_by_one.h"
#include "sources/source_node.h"
#include "sources/sources.h"

namespace torch_distinput::sources {
namespace {

constexpr const char* kImageFilesName = "image_files";

/// The size of an object is the word of its server, and memory is taken for it.
constexpr std::uint64_t kMostImageBytes = std::uint64_t{1} << 30;

/// The files, and the number of each.
struct NumberedFiles {
  std::vector<std::string> paths;
  std::vector<std::int64_t> numbers;
  bool is_remote = std::any_of(paths.begin(), paths.end(), is_url);

  std::int64_t size() const { return static_cast<std::int64_t>(paths.size()); }
};
using NumberedFilesPtr = std::shared_ptr<const NumberedFiles>;

/// The bytes of a file, in memory of `pool`.
Bytes read_whole(const std::string& path, BufferPool& pool) {
  return with_file_errors(kImageFilesName, [&] {
    const File file(path);
    const FileStamp stamp = file.stamp();
    if (!stamp.is_regular) throw FileError(FileError::Kind::kSystem, path, "is not a regular file");
    if (stamp.size > kMostImageBytes)
      throw FileError(FileError::Kind::kDamaged, path,
                      "it has " + std::to_string(stamp.size) + " bytes, but an image may have " +
                          std::to_string(kMostImageBytes));
    const auto size = static_cast<std::int64_t>(stamp.size);
    at::Tensor bytes = pooled_tensor({&size, 1}, at::kByte, pool);
    const std::span<char> into(static_cast<char*>(bytes.mutable_data_ptr()), stamp.size);
    if (file.read(into, 0) != into.size())
      throw FileError(FileError::Kind::kChanged, path, "has become shorter");
    return Bytes{std::move(bytes), {}, {}, /*utf8=*/false};
  });
}

class ImageFilesPlan final : public Plan {
 public:
  ImageFilesPlan(NumberedFilesPtr files, std::shared_ptr<BufferPool> pool)
      : files_(std::move(files)), pool_(std::move(pool)) {}

  std::int64_t size() const override { return files_->size(); }
  PlanTraits traits() const override { return {.blocks = true, .remote = files_->is_remote}; }
  /// A file is one row.
  SourceRow source_row(std::int64_t row) const override { return {0, origin(row), 0}; }
  std::string origin(std::int64_t position) const override {
    return files_->paths[static_cast<std::size_t>(position)];
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    static const StructurePtr kPair = Structure::tuple({Structure::leaf(), Structure::leaf()});
    std::vector<Element> elements;
    elements.reserve(positions.size());
    will_read(positions);
    for (const std::int64_t position : positions) {
      const auto file = static_cast<std::size_t>(position);
      elements.emplace_back(kPair, std::vector<Leaf>{read_whole(files_->paths[file], *pool_),
                                                     at::scalar_tensor(files_->numbers[file], at::kLong)});
    }
    return elements;
  }
  void will_read(std::span<std::int64_t> positions) const override {
    if (!files_->is_remote) return;
    std::vector<std::string> paths;
    for (const std::int64_t position : positions)
      paths.push_back(files_->paths[static_cast<std::size_t>(position)]);
    will_read_whole(paths);
  }

 private:
  NumberedFilesPtr files_;
  std::shared_ptr<BufferPool> pool_;
};

/// Tuples of a file's bytes and its number.
class ImageFilesNode final : public SourceNode, public ReadsFiles {
 public:
  explicit ImageFilesNode(NumberedFiles files) : files_(std::make_shared<NumberedFiles>(std::move(files))) {}

  std::string_view name() const override { return kImageFilesName; }
  std::string describe() const override { return c10::str(kImageFilesName, "(", files_->size(), " files)"); }
  SpecPtr spec() const override {
    return std::make_shared<const ElementSpec>(
        ElementSpec{Structure::tuple({Structure::leaf(), Structure::leaf()}),
                    {StringSpec{Dims{}, std::nullopt}, TensorSpec{Dims{}, at::kLong}}});
  }
  std::int64_t cardinality() const override { return files_->size(); }
  Traits traits() const override { return {.rows = {.fallible = true}}; }

  PlanPtr plan(const IterContext& context) const override {
    return context.execution->options.skip ? nullptr : rows(context);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return rows_one_by_one(rows(context), context, kImageFilesName);
  }

  std::optional<std::vector<std::string>> files(const IterContext&) const override { return files_->paths; }

 private:
  PlanPtr rows(const IterContext& context) const {
    return std::make_shared<ImageFilesPlan>(files_, context.execution->pool);
  }

  NumberedFilesPtr files_;
};

}  // namespace

NodePtr image_files(std::vector<std::string> paths, std::vector<std::int64_t> numbers) {
  TORCH_CHECK_VALUE(paths.size() == numbers.size(), kImageFilesName, ": there are ", paths.size(),
                    " `paths`, but ", numbers.size(), " `numbers`.");
  return std::make_shared<ImageFilesNode>(NumberedFiles{std::move(paths), std::move(numbers)});
}

}  // namespace torch_distinput::sources

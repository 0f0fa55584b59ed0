// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/first_row.h"
#include "execution/open.h"
#include "execution/parse_node.h"
#include "io/tar_format.h"
#include "kernels/dense.h"
#include "kernels/rows.h"
#include "sources/records/byte_elements.h"
#include "sources/records/file_reader.h"
#include "sources/sources.h"
#include "torch_distinput/error.h"

namespace torch_distinput::sources {
namespace {

constexpr const char* kTarName = "TarDataset";
constexpr const char* kTarKey = "__key__";

using Suffixes = std::vector<std::string>;

StructurePtr structure_of(const Suffixes& suffixes) {
  std::vector<std::string> keys{kTarKey};
  keys.insert(keys.end(), suffixes.begin(), suffixes.end());
  return Structure::dict(keys, std::vector<StructurePtr>(keys.size(), Structure::leaf()));
}

/// The suffixes of a group, sorted: members may be in another order in each group.
Suffixes suffixes_of(const TarGroup& group) {
  Suffixes suffixes;
  for (const TarGroup::Member& member : group.members) suffixes.emplace_back(member.suffix);
  std::sort(suffixes.begin(), suffixes.end());
  return suffixes;
}

/// Turns groups in their compact form into dicts of the members' contents.
class TarParser final : public ElementParser {
 public:
  explicit TarParser(Suffixes suffixes)
      : suffixes_(std::move(suffixes)), structure_(structure_of(suffixes_)) {}

  Element parse(Element element, BufferPool& pool, const RecordName& name) const override {
    const Bytes raw = std::get<Bytes>(std::move(element.leaves().front()));
    std::vector<TarGroup> groups;
    groups.reserve(static_cast<std::size_t>(raw.count()));
    for (std::int64_t row = 0; row < raw.count(); ++row) {
      groups.push_back(read_tar_group(raw[row]));
      sort_members(groups.back(), name, row);
    }
    return raw.shape.empty() ? single(raw, groups.front()) : column(raw, groups, pool);
  }
  bool stacks() const override { return true; }
  bool row_wise() const override { return true; }

 private:
  /// Puts the members in the order of `suffixes_`. Throws InvalidArgumentError unless they have these.
  void sort_members(TarGroup& group, const RecordName& name, std::int64_t row) const {
    std::sort(group.members.begin(), group.members.end(),
              [](const auto& a, const auto& b) { return a.suffix < b.suffix; });
    const auto refuse = [&](std::string_view suffix, const char* problem) {
      throw InvalidArgumentError(
          std::string(kTarName) + ": " + name(row) + ", '" + std::string(group.key) + "', " + problem +
          " '." + std::string(suffix) +
          "' in contrast to the first element; all elements must have the same suffixes.");
    };
    for (std::size_t i = 0; i < std::max(suffixes_.size(), group.members.size()); ++i) {
      const bool lacks =
          i == group.members.size() || (i < suffixes_.size() && suffixes_[i] < group.members[i].suffix);
      if (lacks) refuse(suffixes_[i], "has no member");
      if (i == suffixes_.size() || suffixes_[i] != group.members[i].suffix)
        refuse(group.members[i].suffix, "has a member");
    }
  }

  /// The members share the memory of the group.
  Element single(const Bytes& raw, const TarGroup& group) const {
    const char* const begin = raw[0].data();
    const std::int64_t first =
        raw.offsets.defined() ? *static_cast<const std::int64_t*>(raw.offsets.const_data_ptr()) : 0;
    const auto piece = [&](std::string_view text, bool utf8) {
      const std::int64_t at = first + (text.data() - begin);
      return Bytes{share_rows(raw.values, at, at + static_cast<std::int64_t>(text.size())), {}, {}, utf8};
    };
    std::vector<Leaf> leaves{piece(group.key, /*utf8=*/true)};
    for (const TarGroup::Member& member : group.members)
      leaves.emplace_back(piece(member.data, /*utf8=*/false));
    return {structure_, std::move(leaves)};
  }

  Element column(const Bytes& raw, const std::vector<TarGroup>& groups, BufferPool& pool) const {
    std::vector<Leaf> leaves;
    leaves.emplace_back(
        column_of(raw, groups, pool, /*utf8=*/true, [](const TarGroup& group) { return group.key; }));
    for (std::size_t i = 0; i < suffixes_.size(); ++i) {
      leaves.emplace_back(column_of(raw, groups, pool, /*utf8=*/false,
                                    [i](const TarGroup& group) { return group.members[i].data; }));
    }
    return {structure_, std::move(leaves)};
  }

  template <class Get>
  static Bytes column_of(const Bytes& raw, const std::vector<TarGroup>& groups, BufferPool& pool, bool utf8,
                         Get get) {
    std::int64_t total = 0;
    for (const TarGroup& group : groups) total += static_cast<std::int64_t>(get(group).size());
    Bytes column{pooled_tensor(std::array{total}, at::kByte, pool),
                 pooled_tensor(std::array{raw.count() + 1}, at::kLong, pool), raw.shape, utf8};
    auto* const to = static_cast<char*>(column.values.mutable_data_ptr());
    auto* bound = static_cast<std::int64_t*>(column.offsets.mutable_data_ptr());
    *bound = 0;
    for (const TarGroup& group : groups) {
      const std::string_view text = get(group);
      if (!text.empty()) std::memcpy(to + *bound, text.data(), text.size());
      bound[1] = *bound + static_cast<std::int64_t>(text.size());
      ++bound;
    }
    return column;
  }

  Suffixes suffixes_;
  StructurePtr structure_;
};

/// The groups of tar archives as dicts: the key, and the contents of the members by suffix, sorted. The first
/// group says which suffixes all must have. Input: the groups in their compact form.
class TarNode final : public ParseNode {
 public:
  using ParseNode::ParseNode;

  std::string_view name() const override { return kTarName; }
  std::string describe() const override { return "members()"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<TarNode>(std::move(inputs.at(0)));
  }

  /// Reads the first group. Null if there is none.
  SpecPtr spec() const override {
    const std::optional<Suffixes> known = suffixes();
    if (!known) return nullptr;
    ElementSpec spec{structure_of(*known), {StringSpec{Dims{}, "utf-8"}}};
    spec.leaves.resize(known->size() + 1, StringSpec{Dims{}, std::nullopt});
    return std::make_shared<const ElementSpec>(std::move(spec));
  }

 private:
  ElementParserPtr parser() const override {
    return std::make_shared<const TarParser>(suffixes().value_or(Suffixes{}));
  }

  std::optional<Suffixes> suffixes() const {
    {
      const std::lock_guard lock(mutex_);
      if (suffixes_) return suffixes_;
    }
    const std::optional<Suffixes> found = first_row(options(), [this](const Options& with) {
      const IterContext context = epoch_context(make_execution_context(with), 0, 0, /*stream_only=*/true);
      const std::optional<Element> group = input().iterate(context.input(0))->next();
      if (!group) return std::optional<Suffixes>();
      return std::optional<Suffixes>(
          suffixes_of(read_tar_group(std::get<Bytes>(group->leaves().front())[0])));
    });
    const std::lock_guard lock(mutex_);
    suffixes_ = found;
    return found;
  }

  mutable std::mutex mutex_;
  mutable std::optional<Suffixes> suffixes_;
};

}  // namespace

NodePtr tar_members(NodePtr names, const FileOptions& options) {
  FileReader reader{.name = kTarName, .format = {.kind = RecordKind::kTarGroups}};
  apply_options(reader, options);
  return std::make_shared<TarNode>(read_files(std::move(names), std::move(reader)));
}

}  // namespace torch_distinput::sources

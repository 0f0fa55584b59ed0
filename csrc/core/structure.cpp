// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/structure.h"

#include <array>
#include <mutex>
#include <set>
#include <sstream>
#include <unordered_map>

#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

struct InternTable {
  std::mutex mutex;
  std::unordered_map<std::string, StructurePtr> entries;
};

/// Never destroyed, because structures may be built while the process exits. Pipelines have few distinct
/// structures, so entries stay as long as the process. Its pointers own nothing: every row of every thread
/// copies some of them, which must not write to a count that the threads share.
InternTable& intern_table() {
  static auto* table = new InternTable;
  return *table;
}

std::int64_t count_leaves(const std::vector<StructurePtr>& children) {
  std::int64_t count = 0;
  for (const auto& child : children) count += child->leaf_count();
  return count;
}

void check_keys(const std::vector<std::string>& keys, std::size_t children, const char* what) {
  TORCH_CHECK_VALUE(keys.size() == children, "structure: a ", what, " needs one key for each part, got ",
                    keys.size(), " keys for ", children, " parts.");
  const std::set<std::string> unique(keys.begin(), keys.end());
  TORCH_CHECK_VALUE(unique.size() == keys.size(), "structure: the keys of a ", what, " must be unique.");
}

bool same_structure(const Structure& a, const Structure& b) {
  return a.kind() == b.kind() && a.type() == b.type() && a.children() == b.children() &&
         a.keys() == b.keys() && a.name() == b.name();
}

/// Entries of the table that a thread found last. A function of rows asks for the same one or two for each
/// row; with the table alone, to word the identity and to lock would cost more than most such functions.
struct RecentStructures {
  std::array<const StructurePtr*, 4> entries{};
  std::size_t next = 0;

  const StructurePtr* find(const Structure& candidate) const {
    for (const StructurePtr* const entry : entries) {
      if (entry != nullptr && same_structure(**entry, candidate)) return entry;
    }
    return nullptr;
  }
  void add(const StructurePtr& entry) { entries[next++ % entries.size()] = &entry; }
};

}  // namespace

StructurePtr Structure::intern(Structure&& candidate) {
  static thread_local RecentStructures recent;
  if (const StructurePtr* const known = recent.find(candidate)) return *known;
  if (candidate.kind_ == Kind::kDict) check_keys(candidate.keys_, candidate.children_.size(), "dict");
  if (candidate.kind_ == Kind::kNamedTuple)
    check_keys(candidate.keys_, candidate.children_.size(), "named tuple");
  std::string id = candidate.identity();
  auto& table = intern_table();
  const std::lock_guard lock(table.mutex);
  auto [entry, added] = table.entries.try_emplace(std::move(id));
  if (added) entry->second = StructurePtr(StructurePtr(), new Structure(std::move(candidate)));
  recent.add(entry->second);
  return entry->second;
}

std::string Structure::identity() const {
  std::ostringstream out;
  out << static_cast<int>(kind_) << '(' << name_ << '@' << type_.get() << ')';
  for (const auto& key : keys_) out << key.size() << ':' << key;
  for (const auto& child : children_) out << '|' << child.get();
  return out.str();
}

StructurePtr Structure::leaf() {
  static const StructurePtr instance = [] {
    Structure structure;
    structure.kind_ = Kind::kLeaf;
    structure.leaf_count_ = 1;
    return intern(std::move(structure));
  }();
  return instance;
}

StructurePtr Structure::none() {
  static const StructurePtr instance = [] {
    Structure structure;
    structure.kind_ = Kind::kNone;
    return intern(std::move(structure));
  }();
  return instance;
}

StructurePtr Structure::tuple(std::vector<StructurePtr> children) {
  Structure structure;
  structure.kind_ = Kind::kTuple;
  structure.leaf_count_ = count_leaves(children);
  structure.children_ = std::move(children);
  return intern(std::move(structure));
}

StructurePtr Structure::list(std::vector<StructurePtr> children) {
  Structure structure;
  structure.kind_ = Kind::kList;
  structure.leaf_count_ = count_leaves(children);
  structure.children_ = std::move(children);
  return intern(std::move(structure));
}

StructurePtr Structure::dict(std::vector<std::string> keys, std::vector<StructurePtr> children) {
  Structure structure;
  structure.kind_ = Kind::kDict;
  structure.leaf_count_ = count_leaves(children);
  structure.keys_ = std::move(keys);
  structure.children_ = std::move(children);
  return intern(std::move(structure));
}

StructurePtr Structure::named_tuple(std::string name, std::vector<std::string> fields,
                                    std::vector<StructurePtr> children, std::shared_ptr<void> type) {
  Structure structure;
  structure.kind_ = Kind::kNamedTuple;
  structure.leaf_count_ = count_leaves(children);
  structure.name_ = std::move(name);
  structure.keys_ = std::move(fields);
  structure.children_ = std::move(children);
  structure.type_ = std::move(type);
  return intern(std::move(structure));
}

std::string Structure::leaf_path(std::int64_t index) const {
  if (kind_ == Kind::kLeaf) return "";
  for (std::size_t i = 0; i < children_.size(); ++i) {
    const auto& child = *children_[i];
    if (index >= child.leaf_count()) {
      index -= child.leaf_count();
      continue;
    }
    std::string step;
    if (kind_ == Kind::kDict) {
      step = "['" + keys_[i] + "']";
    } else if (kind_ == Kind::kNamedTuple) {
      step = "." + keys_[i];
    } else {
      step = "[" + std::to_string(i) + "]";
    }
    return step + child.leaf_path(index);
  }
  C10_THROW_ERROR(IndexError, "structure: leaf index is beyond the last leaf of " + str() + ".");
}

std::string Structure::str() const {
  if (kind_ == Kind::kLeaf) return "*";
  if (kind_ == Kind::kNone) return "None";
  std::string out;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (i > 0) out += ", ";
    if (kind_ == Kind::kDict) out += "'" + keys_[i] + "': ";
    if (kind_ == Kind::kNamedTuple) out += keys_[i] + "=";
    out += children_[i]->str();
  }
  switch (kind_) {
    case Kind::kDict:
      return "{" + out + "}";
    case Kind::kList:
      return "[" + out + "]";
    case Kind::kNamedTuple:
      return name_ + "(" + out + ")";
    default:
      return "(" + out + (children_.size() == 1 ? ",)" : ")");
  }
}

}  // namespace torch_distinput

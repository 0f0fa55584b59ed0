// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "distribute/splitting/element_splitter.h"

namespace torch_distinput {
namespace {

class LegacySplitter final : public ElementSplitter {
 public:
  explicit LegacySplitter(std::int64_t num_replicas) : parts_(num_replicas) {}

  std::int64_t parts() const override { return parts_; }
  std::string describe() const override { return "legacy(num_replicas=" + std::to_string(parts_) + ")"; }
  bool cuts_leaves() const override { return true; }

 protected:
  std::vector<std::int64_t> cut(std::int64_t rows) const override {
    const std::int64_t interval = (rows + parts_ - 1) / parts_;
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts_));
    for (auto& size : sizes) {
      size = std::min(interval, rows);
      rows -= size;
    }
    return sizes;
  }

 private:
  std::int64_t parts_;
};

}  // namespace

SplitterPtr legacy_splitter(std::int64_t num_replicas) {
  return std::make_shared<LegacySplitter>(num_replicas);
}

}  // namespace torch_distinput

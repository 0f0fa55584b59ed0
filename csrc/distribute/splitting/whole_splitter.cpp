// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/element_splitter.h"

namespace torch_distinput {
namespace {

class WholeSplitter final : public ElementSplitter {
 public:
  std::int64_t parts() const override { return 1; }
  std::string describe() const override { return "whole"; }
  bool cuts_leaves() const override { return true; }

 protected:
  std::vector<std::int64_t> cut(std::int64_t rows) const override { return {rows}; }
};

}  // namespace

SplitterPtr whole_splitter() { return std::make_shared<WholeSplitter>(); }

}  // namespace torch_distinput

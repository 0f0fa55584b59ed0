// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/element_type.h"
#include "torch_distinput/function.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// The function of a `flat_map` or `interleave`, which makes a dataset of an element, and how its datasets
/// are read. Any thread may call.
class DatasetFunction {
 public:
  /// `op` names the op in messages; `context` is the op's.
  DatasetFunction(FunctionPtr function, const std::string& op, const IterContext& context);

  /// The dataset of `element`, the input's element `number`. Throws what the function throws, and
  /// c10::TypeError if it returns something else.
  NodePtr dataset(Element element, std::int64_t number) const;

  /// An iterator over that dataset. Its elements are held to the type of the first element of all datasets:
  /// c10::ValueError.
  IteratorPtr open(Element element, std::int64_t number) const;

  /// `flat_map(parse)`.
  const std::string& call() const noexcept { return call_; }

 private:
  FunctionPtr function_;
  std::string call_;
  IterContext context_;
  std::uint64_t key_;
  std::shared_ptr<ElementType> type_ = std::make_shared<ElementType>();
};

/// Whether `node` or something below it reads records from files.
bool reads_files(const Node& node);

/// Whether a leaf of `element` is a dataset that does.
bool holds_readers(const Element& element);

}  // namespace torch_distinput

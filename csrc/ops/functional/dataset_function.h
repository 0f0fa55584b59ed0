// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/element_type.h"
#include "torch_distinput/function.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// The function of a `flat_map` or `interleave`, which makes a dataset from an element, and the way its
/// datasets are read. Safe from any thread.
class DatasetFunction {
 public:
  /// `op` is the name of the op for messages; `context` is the context of the op.
  DatasetFunction(FunctionPtr function, const std::string& op, const IterContext& context);

  /// Returns the dataset that the function makes of `element`, the input's element `number`. Throws what the
  /// function throws, and c10::TypeError if it returns anything but a dataset.
  NodePtr dataset(Element element, std::int64_t number) const;

  /// Returns an iterator over that dataset. Its `next` throws c10::ValueError for an element whose structure,
  /// kinds or dtypes are not those of the first element of any of the datasets.
  IteratorPtr open(Element element, std::int64_t number) const;

  /// The call for messages, such as `flat_map(parse)`.
  const std::string& call() const noexcept { return call_; }

 private:
  FunctionPtr function_;
  std::string call_;
  IterContext context_;
  std::uint64_t key_;
  std::shared_ptr<ElementType> type_ = std::make_shared<ElementType>();
};

/// Returns whether `node` or one of its inputs, at any depth, reads records from files. May run user code.
bool reads_files(const Node& node);

/// Returns whether a leaf of `element` is a dataset that reads records from files. May run user code.
bool holds_readers(const Element& element);

}  // namespace torch_distinput

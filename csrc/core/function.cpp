// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/function.h"

#include <utility>

#include <c10/util/Exception.h>

#include "torch_distinput/process_function.h"
#include "torch_distinput/random.h"

namespace torch_distinput {
namespace {

class NativeFunction final : public Function {
 public:
  NativeFunction(std::function<Element(Element)> function, std::string name)
      : function_(std::move(function)), name_(std::move(name)) {}

  void apply(std::span<Element> elements) const override {
    for (std::size_t row = 0; row < elements.size(); ++row) {
      RowScope::enter(row);
      elements[row] = function_(std::move(elements[row]));
    }
  }
  std::string name() const override { return name_; }

 private:
  std::function<Element(Element)> function_;
  std::string name_;
};

}  // namespace

UserCode::~UserCode() = default;
Function::~Function() = default;
RowSource::~RowSource() = default;
Generator::~Generator() = default;
GeneratorSource::~GeneratorSource() = default;
FunctionProcesses::~FunctionProcesses() = default;
FunctionCalls::~FunctionCalls() = default;
ProcessFunction::~ProcessFunction() = default;

LostProcessError::LostProcessError(const std::string& message) : c10::Error({"", "", 0}, message) {}

FunctionPtr make_function(std::function<Element(Element)> function, std::string name) {
  TORCH_CHECK_VALUE(function, "make_function: `function` must not be empty.");
  return std::make_shared<NativeFunction>(std::move(function), std::move(name));
}

}  // namespace torch_distinput

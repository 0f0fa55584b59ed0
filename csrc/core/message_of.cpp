// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/message_of.h"

#include <c10/util/Exception.h>

namespace torch_distinput {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& known) {
    return known.what_without_backtrace();
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace torch_distinput

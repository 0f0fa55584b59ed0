// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace torch_distinput {

/// The message of the `Error` that `call` throws; adds a test failure if it throws none.
template <class Error, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what_without_backtrace();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace torch_distinput

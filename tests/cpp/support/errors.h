// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <string_view>

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

/// The message of the standard exception that `call` throws; adds a test failure if it throws none.
template <class Call>
std::string message_of_any(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// Whether `text` has `part`; a failure shows all of `text`.
inline ::testing::AssertionResult has(std::string_view text, std::string_view part) {
  if (text.find(part) != std::string_view::npos)
    return ::testing::AssertionSuccess() << "`" << part << "` is in: " << text;
  return ::testing::AssertionFailure() << "`" << part << "` is not in: " << text;
}

}  // namespace torch_distinput

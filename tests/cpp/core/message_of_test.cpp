// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/message_of.h"

#include <stdexcept>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

TEST(MessageOf, HasNoAddresses) {
  EXPECT_EQ(message_of(std::make_exception_ptr(NotFoundError("no file"))), "no file");
  try {
    TORCH_CHECK_VALUE(false, "bad value");
  } catch (...) {
    EXPECT_EQ(message_of(std::current_exception()), "bad value");
  }
}

TEST(MessageOf, WorksForAnythingThatIsThrown) {
  EXPECT_EQ(message_of(std::make_exception_ptr(std::runtime_error("why"))), "why");
  EXPECT_EQ(message_of(std::make_exception_ptr(3)), "an exception of unknown type");
}

}  // namespace
}  // namespace torch_distinput

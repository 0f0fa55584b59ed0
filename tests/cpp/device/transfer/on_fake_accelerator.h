// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "fake_accelerator/fake_accelerator.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// Each test begins and ends with an idle fake accelerator.
class OnFakeAccelerator : public testing::Test {
 protected:
  void SetUp() override {
    fake::install();
    fake::drain();
    fake::reset();
  }
  void TearDown() override {
    fake::set_delay(0);
    fake::set_capturing(false);
    fake::drain();
  }
};

/// A strategy over both devices.
inline MirroredStrategy both_devices() { return MirroredStrategy({"fake:0", "fake:1"}); }

}  // namespace torch_distinput

// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/content_probe.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "torch_distinput/dataset.h"

namespace torch_distinput {
namespace {

class Unreadable final : public RowSource {
 public:
  std::int64_t size() const override { return 3; }
  std::vector<Element> rows(std::span<const std::int64_t>) const override {
    TORCH_CHECK_VALUE(false, "the disk is gone");
  }
};

TEST(ContentProbe, OfRowsThatFailIsEqualInAllProcesses) {
  const std::string text = content_probe(Dataset::from_rows(std::make_shared<Unreadable>()).node());
  EXPECT_NE(text.find("the disk is gone"), std::string::npos) << text;
  EXPECT_EQ(text.find("Exception raised from"), std::string::npos)
      << "addresses differ between processes: " << text;
}

}  // namespace
}  // namespace torch_distinput

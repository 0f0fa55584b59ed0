// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/hub_path.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

struct Case {
  std::string url;
  std::string repository;
  std::string revision;
  std::string path;
  std::string front;
};

class HubPathOf : public testing::TestWithParam<Case> {};

TEST_P(HubPathOf, Url) {
  const HubPath place = parse_hub_path(GetParam().url);
  EXPECT_EQ(place.repository, GetParam().repository);
  EXPECT_EQ(place.revision, GetParam().revision);
  EXPECT_EQ(place.path, GetParam().path);
  EXPECT_EQ(place.front, GetParam().front);
}

INSTANTIATE_TEST_SUITE_P(
    HubPath, HubPathOf,
    testing::Values(Case{"hf://datasets/o/n/d/x y", "datasets/o/n", "main", "d/x y", "hf://datasets/o/n/"},
                    Case{"hf://o/n/x@y/z", "o/n", "main", "x@y/z", "hf://o/n/"},
                    Case{"hf://spaces/o/n", "spaces/o/n", "main", "", "hf://spaces/o/n/"},
                    Case{"hf://datasets/o/n@v1.0/x", "datasets/o/n", "v1.0", "x", "hf://datasets/o/n@v1.0/"},
                    Case{"hf://datasets/o/n@v1", "datasets/o/n", "v1", "", "hf://datasets/o/n@v1/"},
                    Case{"hf://o/n@a%2Fb/x", "o/n", "a/b", "x", "hf://o/n@a%2Fb/"},
                    Case{"hf://datasets/o/n@refs/convert/parquet/d/x", "datasets/o/n", "refs/convert/parquet",
                         "d/x", "hf://datasets/o/n@refs/convert/parquet/"},
                    Case{"hf://o/n@refs/pr/12/x", "o/n", "refs/pr/12", "x", "hf://o/n@refs/pr/12/"},
                    Case{"hf://o/n@refs/x", "o/n", "refs", "x", "hf://o/n@refs/"},
                    Case{"hf://o/n@v1@2/x", "o/n", "v1@2", "x", "hf://o/n@v1@2/"}));

class NoHubPath : public testing::TestWithParam<std::string> {};

TEST_P(NoHubPath, IsRefused) {
  EXPECT_THROW(parse_hub_path(GetParam()), std::invalid_argument) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(HubPath, NoHubPath,
                         testing::Values("", "hf:/", "hf://", "hf://o", "hf://o/", "hf:///n/x",
                                         "hf://datasets", "hf://datasets/o", "hf://datasets/o/",
                                         "hf://datasets//n/x", "hf://o@v1/n/x", "hf://o/n@/x",
                                         "hf://datasets/o/@v1/x"));

}  // namespace
}  // namespace torch_distinput

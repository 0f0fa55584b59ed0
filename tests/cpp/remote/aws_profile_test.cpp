// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/aws_profile.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/environment.h"

namespace torch_distinput {
namespace {

using Values = std::map<std::string, std::string>;

class AwsProfile : public ::testing::Test {
 protected:
  ~AwsProfile() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

 private:
  static std::string new_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tdi-aws-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    return name;
  }

  const std::string folder_ = new_folder();
  Variable home_{"HOME", folder_};
  Variable credentials_{"AWS_SHARED_CREDENTIALS_FILE"};
  Variable config_{"AWS_CONFIG_FILE"};
  Variable profile_{"AWS_PROFILE"};
};

TEST_F(AwsProfile, HasTheKeysOfASection) {
  const std::string file = write(
      "f", "x = outside\n# note\n; note\n\n[ a ]\nkey=1=2\n  spaced\t=  v w \n[b]\nkey = 3\n[a]\nmore=4");
  EXPECT_EQ(ini_section(file, "a"), (Values{{"key", "1=2"}, {"more", "4"}}));
  EXPECT_EQ(ini_section(file, "b"), (Values{{"key", "3"}}));
  EXPECT_EQ(ini_section(file, "c"), Values());
}

TEST_F(AwsProfile, ReadsLinesThatEndAsOnWindows) {
  EXPECT_EQ(ini_section(write("f", "[a]\r\n# note\r\nkey = v\r\n\r\n"), "a"), (Values{{"key", "v"}}));
}

TEST_F(AwsProfile, PassesOverWhatIsNoLineOfAProfile) {
  const std::string file = write("f", "[a]\ns3 =\n  max = 1\n=\nno value\n[a\nkey = lost\n[a]\nkey = v\n");
  EXPECT_EQ(ini_section(file, "a"), (Values{{"", ""}, {"key", "v"}, {"s3", ""}}));
  EXPECT_EQ(ini_section(path("none"), "a"), Values());
  EXPECT_EQ(ini_section(path(""), "a"), Values()) << "a folder";
}

TEST_F(AwsProfile, IsTheDefaultOneOfTheUsersFiles) {
  write(".aws/credentials", "[default]\nid = 1\n[work]\nid = 2\n");
  write(".aws/config",
        "[default]\nid = 3\nregion = here\n[profile work]\nregion = there\n[work]\nregion = no\n");
  EXPECT_EQ(aws_profile(), (Values{{"id", "1"}, {"region", "here"}}));
  const Variable work("AWS_PROFILE", "work");
  EXPECT_EQ(aws_profile(), (Values{{"id", "2"}, {"region", "there"}}));
}

TEST_F(AwsProfile, LiesInTheFilesThatVariablesName) {
  write(".aws/credentials", "[default]\nid = 1\n");
  const Variable credentials("AWS_SHARED_CREDENTIALS_FILE", write("c", "[default]\nid = 2\n"));
  const Variable config("AWS_CONFIG_FILE", path("none"));
  EXPECT_EQ(aws_profile(), (Values{{"id", "2"}}));
}

}  // namespace
}  // namespace torch_distinput

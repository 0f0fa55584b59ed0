// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/xml_reader.h"

#include <random>
#include <stdexcept>

#include <gtest/gtest.h>

#include "support/mutations.h"

namespace torch_distinput {
namespace {

using mutations_testing::kMutations;
using mutations_testing::mutated;

/// The leaves of `text`, as "a/b=value;".
std::string leaves(std::string_view text) {
  std::string found;
  read_xml(text, [&](const std::vector<std::string>& path, const std::string& value) {
    for (const std::string& name : path)
      found.append(found.empty() || found.back() == ';' ? "" : "/") += name;
    found.append("=").append(value).append(";");
  });
  return found;
}

TEST(Xml, HasElementsTextsAndMarks) {
  EXPECT_EQ(
      leaves("<?xml version=\"1.0\"?>\n<!DOCTYPE a>\n<a x=\"1\">\n <b>1</b><!-- <b>2</b> --><b/><s:c\ty='2' "
             ">t<![CDATA[<&>]]>u</s:c >\n</a>\n"),
      "a/b=1;a/b=;a/c=t<&>u;");
}

TEST(Xml, TellsTheEndsOfElements) {
  std::string ends;
  read_xml(
      "<a><b><c/></b></a>", [](const auto&, const auto&) {},
      [&](const std::vector<std::string>& path) { ends += path.back(); });
  EXPECT_EQ(ends, "cba");
}

TEST(Xml, DecodesTheEntitiesThatThereAre) {
  EXPECT_EQ(leaves("<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#xe4;&#x20AC;&#x1F600;</a>"),
            "a=<>&\"'AB\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80;");
}

TEST(Xml, RefusesOtherEntities) {
  for (const char* entity : {"&lol;", "&;", "&amp", "&#;", "&#x;", "&#xg;", "&#-1;", "&#x110000;",
                             "&#99999999999;", "&#xD800;", "&#xDFFF;", "&#0;"})
    EXPECT_THROW(leaves(std::string("<a>") + entity + "</a>"), std::runtime_error) << entity;
  // Entities that a document declares, the way to make a small text a large one, are unknown.
  EXPECT_THROW(leaves("<!DOCTYPE a [<!ENTITY b \"ccc\">]><a>&b;</a>"), std::runtime_error);
}

TEST(Xml, RefusesWhatIsNotWellFormed) {
  for (const char* text : {"<", "<a", "<a>", "</a>", "<a></b>", "<a><b></a></b>", "<>", "</>", "< a></ a>",
                           "<a><!--</a>", "<a><![CDATA[</a>", "<?", "<!", "<a/", "<:/>"})
    EXPECT_THROW(leaves(text), std::runtime_error) << text;
  EXPECT_EQ(leaves(""), "");
  EXPECT_EQ(leaves("no XML"), "");
}

TEST(Xml, NestsThirtyTwoDeep) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "<a>";
    for (int i = 0; i < depth; ++i) text += "</a>";
    return text;
  };
  EXPECT_NO_THROW(leaves(nested(32)));
  EXPECT_THROW(leaves(nested(33)), std::runtime_error);
  std::string open;
  for (int i = 0; i < 1'000'000; ++i) open += "<a>";
  EXPECT_THROW(leaves(open), std::runtime_error);
}

TEST(Xml, TakesLongNamesAndBytesOfAnyKind) {
  const std::string name(1 << 20, 'n');
  EXPECT_EQ(leaves("<" + name + "/>"), name + "=;");
  EXPECT_THROW(leaves("<" + name), std::runtime_error);
  EXPECT_EQ(leaves(std::string("<a>x\0y\xff</a>", 12)), std::string("a=x\0y\xff;", 7));
}

TEST(Xml, IsReadOrRefusedWhateverItIs) {
  const std::string list =
      "<?xml version=\"1.0\"?><ListBucketResult><Contents><Key>a&amp;b&#x41;</Key><Size>5</Size></Contents>"
      "<Contents><Key><![CDATA[c]]></Key></Contents><!-- x "
      "--><NextContinuationToken>t</NextContinuationToken>"
      "</ListBucketResult>";
  std::mt19937_64 random(5);
  for (int turn = 0; turn < kMutations; ++turn) {
    const std::string text = mutated(list, random);
    std::size_t bytes = 0;
    try {
      read_xml(text, [&](const auto& path, const std::string& value) {
        ASSERT_LE(path.size(), 32u);
        bytes += value.size();
      });
    } catch (const std::runtime_error&) {
    }
    ASSERT_LE(bytes, text.size());
  }
}

TEST(Xml, HasAValueBeforeTheDamage) {
  EXPECT_EQ(xml_value("<E><Code>Slow</Code><Code>2</Code><Mess", "Code"), "Slow");
  EXPECT_EQ(xml_value("<E><Code>Slow", "Code"), "");
  EXPECT_EQ(xml_value("<html>", "Code"), "");
}

}  // namespace
}  // namespace torch_distinput

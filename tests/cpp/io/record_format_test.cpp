// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/record_format.h"

#include "io/sample_files.h"
#include "io/utf8.h"

namespace torch_distinput {
namespace {

using namespace files_testing;
using Found = RecordScan::Found;

RecordScan scan(const RecordFormat& format, const std::string& piece, bool whole) {
  return scan_record(format, piece, whole);
}

std::string contents(const RecordFormat& format, const std::string& raw) {
  std::string to(most_contents(format, raw.size()), '?');
  to.resize(extract_contents(format, raw, to.data(), "file", 100));
  return to;
}

TEST(ScanRecord, ALineEndsAfterItsNewline) {
  EXPECT_EQ(scan(kLines, "one\ntwo", false).bytes, 4U);
  EXPECT_EQ(scan(kLines, "one", false).found, Found::kMore);
  EXPECT_EQ(scan(kLines, "one", true).bytes, 3U);
  EXPECT_EQ(scan(kLines, "\n", true).bytes, 1U);
  EXPECT_EQ(scan(kLines, "", true).found, Found::kEnd);
  EXPECT_EQ(scan(kLines, "\r", true).found, Found::kEnd);
}

TEST(ScanRecord, ATfRecordNeedsItsWholeHeadAndLength) {
  const std::string record = tf_record("data");
  EXPECT_EQ(scan(kTfRecordFormat, record + "x", false).bytes, record.size());
  EXPECT_EQ(scan(kTfRecordFormat, record.substr(0, 5), false).bytes, kTfRecordHead);
  EXPECT_EQ(scan(kTfRecordFormat, record.substr(0, 12), false).bytes, record.size());
  EXPECT_EQ(scan(kTfRecordFormat, record.substr(0, 12), true).found, Found::kDamaged);
  EXPECT_EQ(scan(kTfRecordFormat, record.substr(0, 5), true).found, Found::kDamaged);
  EXPECT_EQ(scan(kTfRecordFormat, "", true).found, Found::kEnd);
}

TEST(ScanRecord, AnAbsurdLengthIsDamage) {
  const std::string length = bytes_of(~std::uint64_t{0} - 10);
  const std::string head = length + bytes_of(mask_crc(crc32c(length)));
  EXPECT_EQ(scan(kTfRecordFormat, head, false).found, Found::kDamaged);
  EXPECT_EQ(scan(kTfRecordFormat, bytes_of(std::uint64_t{4}) + "none" + "data" + "none", false).problem,
            "the CRC of a record's length is wrong");
}

TEST(ScanRecord, AFixedRecordComesBeforeTheFooter) {
  EXPECT_EQ(scan(fixed(4, 0, 2), "1234xx", true).bytes, 4U);
  EXPECT_EQ(scan(fixed(4, 0, 2), "1234x", false).bytes, 6U);
  EXPECT_EQ(scan(fixed(4, 0, 2), "xx", true).found, Found::kEnd);
  EXPECT_EQ(scan(fixed(4, 0, 2), "123xx", true).found, Found::kDamaged);
}

TEST(ExtractContents, LinesLoseTheirEndAndCarriageReturns) {
  EXPECT_EQ(contents(kLines, "one\r\n"), "one");
  EXPECT_EQ(contents(kLines, "o\rne"), "one");
  EXPECT_EQ(contents(kLines, "\n"), "");
  EXPECT_EQ(contents(kLines, std::string("a\0b\n", 4)), std::string("a\0b", 3));
}

TEST(ExtractContents, NamesFileAndOffsetOfDamage) {
  std::string record = tf_record("data");
  EXPECT_EQ(contents(kTfRecordFormat, record), "data");
  record[13] ^= 1;
  EXPECT_EQ(error_of([&] { contents(kTfRecordFormat, record); }),
            "file: at byte 100: the CRC of a record's data is wrong");
  EXPECT_EQ(error_of([] { contents(kLines, "ab\xff\n"); }), "file: at byte 102: the text is not UTF-8");
}

TEST(Utf8Prefix, AcceptsWhatPythonAccepts) {
  const auto prefix = [](const std::string& text) { return utf8_prefix(text); };
  const std::string good = "aé€😀" + std::string(40, 'x') + "é";
  EXPECT_EQ(prefix(good), good.size());
  for (const char* bad :
       {"\x80", "\xc0\xaf", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5", "\xe2\x82"}) {
    EXPECT_EQ(prefix(std::string("ab") + bad), 2U);
    EXPECT_EQ(prefix(std::string(33, 'a') + bad + std::string(40, 'b')), 33U);
  }
}

TEST(EscapeNonUtf8, WritesWhatPythonWrites) {
  EXPECT_EQ(escape_non_utf8(""), "");
  EXPECT_EQ(escape_non_utf8("aé€"), "aé€");
  EXPECT_EQ(escape_non_utf8("/a\xff/\xe2\x82"), "/a\\xff/\\xe2\\x82");
}

}  // namespace
}  // namespace torch_distinput

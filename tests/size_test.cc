// Sizes in both forms, and in the middle of a filter.
#include "workload/size.h"

#include <gtest/gtest.h>

namespace overlapbench {
namespace {

TEST(ReadSize, TakesBothForms) {
  EXPECT_EQ(ReadSize("67108864"), 67108864);
  EXPECT_EQ(ReadSize("64M"), 67108864);
  EXPECT_EQ(ReadSize("4K"), 4096);
  EXPECT_EQ(ReadSize("2G"), 2L << 30);
  EXPECT_EQ(ReadSize("1T"), 1L << 40);
  EXPECT_EQ(ReadSize("-8"), -8);
}

TEST(ReadSize, TakesAllThatFit) {
  EXPECT_EQ(ReadSize("9007199254740991K"), 9007199254740991L << 10);
  EXPECT_EQ(ReadSize("-9007199254740991K"), -(9007199254740991L << 10));
  for (const char* text : {"9007199254740992K", "-9007199254740992K", "9223372036854775808"})
    EXPECT_EQ(ReadSize(text), std::nullopt) << text;
}

TEST(ReadSize, RefusesMalformedSizes) {
  for (const char* text : {"", "M", "64m", "64MB", "6 4", "0x10", "9223372036854775807K", "12Q"})
    EXPECT_EQ(ReadSize(text), std::nullopt) << text;
}

TEST(BinarySize, HasTheLargestWholeUnit) {
  EXPECT_EQ(BinarySize("67108864"), "64 MiB");
  EXPECT_EQ(BinarySize("1024"), "1 KiB");
  EXPECT_EQ(BinarySize("1536"), "1536 B");
  EXPECT_EQ(BinarySize("3298534883328"), "3 TiB");
  EXPECT_EQ(BinarySize("1"), "1 B");
  EXPECT_EQ(BinarySize("1125899906842624"), "1024 TiB");
  EXPECT_EQ(BinarySize("0"), "0 B");
  EXPECT_EQ(BinarySize("16x16"), "16x16");
}

TEST(WithSizesInDigits, ReplacesOnlyWholeWords) {
  EXPECT_EQ(WithSizesInDigits("bytes:64M"), "bytes:67108864");
  EXPECT_EQ(WithSizesInDigits("bytes:(1K|2K)/n:4K$"), "bytes:(1024|2048)/n:4096$");
  EXPECT_EQ(WithSizesInDigits("columns:4K.*precision:fp32"), "columns:4096.*precision:fp32");
  EXPECT_EQ(WithSizesInDigits("10K|19K"), "10240|19456");
  EXPECT_EQ(WithSizesInDigits("\\d1K"), "\\d1024");
  EXPECT_EQ(WithSizesInDigits("1K\\1K"), "1024\\1K");
  for (const char* same :
       {"", "bytes:67108864", "bytes:[0-9]*M", "M", "H2M", "64Mlp", "6.M", "a{2}", "\\1K",
        "grid:16x16", "cv:0.05", "64Ma", "64Mz", "64MA", "64MZ", "64M_", "64M0", "64M9"})
    EXPECT_EQ(WithSizesInDigits(same), same);
}

}  // namespace
}  // namespace overlapbench

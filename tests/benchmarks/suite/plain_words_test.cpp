#include "benchmarks/suite/plain_words.h"

#include <gtest/gtest.h>

namespace stbench {
namespace {

TEST(PlainWords, WithoutAPathTheTextStays) {
  for (const char* text : {"", "ValueError: out of luck", "it's 'seconds' (=1.5e-3): \"so\"", "2.11.0+cpu"})
    EXPECT_EQ(plain_words(text), text);
}

TEST(PlainWords, FileKeepsItsName) {
  EXPECT_EQ(plain_words("File \"/home/alice/peer.py\", line 3"), "File \"peer.py\", line 3");
  EXPECT_EQ(plain_words("/home/alice/peer.py:7: no"), "peer.py:7: no");
  EXPECT_EQ(plain_words("see lib/table.npy."), "see table.npy.");
  EXPECT_EQ(plain_words("(/usr/lib/libcudart.so.13.0)"), "(libcudart.so.13.0)");
}

TEST(PlainWords, FolderHasNoNameEvenAtTheEnd) {
  EXPECT_EQ(plain_words("no such folder: '/home/alice'"), "no such folder: '...'");
  EXPECT_EQ(plain_words("'/home/alice/'"), "'...'");
  EXPECT_EQ(plain_words("in /home/alice."), "in ....");
  EXPECT_EQ(plain_words("HOME=/home/alice.smith"), "HOME=...");
  EXPECT_EQ(plain_words("/home/alice/.py:/home/bob"), "...:...");
}

TEST(PlainWords, QuotedPathGoesAsAWhole) {
  EXPECT_EQ(plain_words("open '/home/alice smith/my data' failed"), "open '...' failed");
  EXPECT_EQ(plain_words("open \"/home/alice smith's/x.npy\" failed"), "open \"x.npy\" failed");
  EXPECT_EQ(plain_words("b'/home/alice (old): a=b'"), "b'...'");
  EXPECT_EQ(plain_words(R"(cannot open '/home/alice\'s "own" data/x.json')"), "cannot open 'x.json'");
  EXPECT_EQ(plain_words("cut off '/home/alice smi"), "cut off '...'");
  EXPECT_EQ(plain_words("'/a b/c' and '/d e/f.so'"), "'...' and 'f.so'");
  EXPECT_EQ(plain_words("'/"), "'...'");
}

TEST(PlainWords, OnlyPrintableAsciiAndBounded) {
  EXPECT_EQ(plain_words("\x1b[31m42 /etc/passwd\t\n"), "?[31m42 ...??");
  EXPECT_EQ(plain_words("caf\xc3\xa9"), "caf??");
  EXPECT_EQ(plain_words(std::string(300, 'x')), std::string(200, 'x') + "...");
}

}  // namespace
}  // namespace stbench

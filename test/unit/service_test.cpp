// What `cairn service` reads: a service's file, and the words of a command.
#include <gtest/gtest.h>

#include "cli/service/settings.h"

namespace cairn::service {
namespace {

TEST(Service, WordsOfACommand) {
    const auto words = split_words("  bash -c 'echo \"$1\" \\n'  \"a \\\"b\\\" \\c\" d\\ e ''x \"\"");
    ASSERT_TRUE(words);
    const job::Words wanted{"bash", "-c", "echo \"$1\" \\n", "a \"b\" \\c", "d e", "x", ""};
    EXPECT_EQ(*words, wanted);
    EXPECT_TRUE(split_words("")->empty());
    for (const char* wrong : {"'a", "\"a", "a\\", "a \"b'"}) EXPECT_FALSE(split_words(wrong)) << wrong;
}

TEST(Service, File) {
    Settings settings;
    settings.name = "shop";
    ASSERT_TRUE(read_lines(
        "# ours\n\n program = a --color '#fff'\nprogram=b\ninterval = 1.5\nkeep=2\nckptdir=/ck\n"
        "fresh=if-needed\nsync=no\nfull=no\nverify=no\nfiles=truncate\nids=virtual\nexternal=refuse\n"
        "directory=/srv\n",
        "f", settings));
    const std::vector<job::Words> programs{{"a", "--color", "#fff"}, {"b"}};
    EXPECT_EQ(settings.programs, programs);
    EXPECT_EQ(settings.interval, 1.5);
    EXPECT_EQ(settings.keep, 2);
    EXPECT_EQ(settings.folder, "/ck/shop");
    EXPECT_EQ(settings.working, "/srv");
    EXPECT_EQ(settings.fresh, Fresh::if_needed);
    EXPECT_FALSE(settings.sync);
    EXPECT_FALSE(settings.full);
    EXPECT_FALSE(settings.verify);
    EXPECT_EQ(settings.files, "truncate");
    for (const char* wrong : {"program=", "program='a", "interval=-1", "keep=0", "ckptdir=ck", "fresh=yes",
                              "files=cut", "ids=old", "external=none", "sync=1", "pace=3", "x"}) {
        const auto read = read_lines(std::string("keep=1\n") + wrong, "f", settings);
        ASSERT_FALSE(read) << wrong;
        EXPECT_NE(read.error().what.find("line 2"), std::string::npos) << read.error().what;
    }
}

TEST(Service, Names) {
    for (const char* good : {"a", "shop-2_x.y"}) EXPECT_TRUE(check_name(good)) << good;
    for (const char* wrong :
         {"", ".a", "-a", "a/b", "a b", "\xc3\xa4", "01234567890123456789012345678901234567890"})
        EXPECT_FALSE(check_name(wrong)) << wrong;
}

}  // namespace
}  // namespace cairn::service

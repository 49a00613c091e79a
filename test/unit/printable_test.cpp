// What comes from a process and is printed (common/printable.h).
#include "common/printable.h"

#include <gtest/gtest.h>

#include "common/json_text.h"

namespace cairn {
namespace {

TEST(Printable, NothingThatATerminalObeysIsLeft) {
    EXPECT_EQ(printable("\x7f\x1b[31m"), "\\x7f\\x1b[31m");
    EXPECT_EQ(printable("\xc2\x9b|\xe2\x80\xae|\xff"), "\\xc2\\x9b|\\xe2\\x80\\xae|\\xff");
    EXPECT_EQ(printable("a\nb"), "a\\x0ab");
    EXPECT_EQ(printable_lines("a\nb"), "a\nb");
    EXPECT_EQ(printable("plain \xc3\xb6"), "plain \xc3\xb6");
}

TEST(Printable, InJsonItIsEscapedAsJsonDoes) {
    EXPECT_EQ(json_text(nlohmann::json{{"name", "\x7f"}}), R"({"name":"\u007f"})");
    EXPECT_EQ(json_text(nlohmann::json{{"name", "\xc2\x9b\x1b"}}), R"({"name":"\u009b\u001b"})");
    EXPECT_EQ(json_text(nlohmann::json{{"name", "\xe2\x82"}}), "{\"name\":\"\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace cairn
